package mutants

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// perJudge bounds one test of one mutant: a mutant that hangs is caught, too. The tests of a package without any
// mutant run together, on a machine that may be busy.
const (
	perJudge = "90s"
	together = "10m"
)

// TestMutants makes each mistake on its own and wants it to be noticed; with -short only
// those that the cheap tiers notice.
func TestMutants(t *testing.T) {
	if os.Getenv("MANDATE_MUTANTS") == "" {
		t.Skip("it takes minutes: make mutants runs it, in CI too")
	}
	needGit(t)
	all := load(t)
	// One at a time in a copy, and a copy for each of those that run at once.
	copies := make(chan string, runtime.GOMAXPROCS(0))
	for range cap(copies) {
		copies <- copyModule(t)
	}
	if testing.Short() { // CI: the tiers that take two seconds for each
		all = slices.DeleteFunc(all, func(m mutant) bool { return m.caught[0].tier != "unit" && m.caught[0].tier != "conformance" })
	}
	t.Run("none", func(t *testing.T) { // a judge that condemns everybody proves nothing
		dir := <-copies
		defer func() { copies <- dir }()
		for pkg, tests := range judges(all) {
			if out, err := run(t, dir, pkg, strings.Join(tests, "|"), together); err != nil {
				t.Fatalf("the tests fail without any mutant:\n%s", out)
			}
		}
	})
	if t.Failed() {
		return
	}
	began := time.Now()
	var mu sync.Mutex // of what follows
	report, killed := "", 0
	t.Cleanup(func() { t.Logf("%d mutants killed in %v:\n%s", killed, time.Since(began).Round(time.Second), report) })
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			dir := <-copies
			defer func() { copies <- dir }()
			if err := apply(dir, m); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := undo(dir, m); err != nil {
					t.Fatal(err)
				}
			}()
			start := time.Now()
			by := condemn(t, dir, m)
			mu.Lock()
			defer mu.Unlock()
			if by == nil {
				report += fmt.Sprintf("  SURVIVED                       %s\n", m.name)
				t.Errorf("SURVIVED: %s", m.breaks)
				return
			}
			killed++
			report += fmt.Sprintf("  killed %4.1fs  %-12s  %-44s  by %s\n", time.Since(start).Seconds(), by.tier, m.name, by.test)
		})
	}
}

// condemn is the first test that notices, nil when none does.
func condemn(t *testing.T, dir string, m mutant) *judge {
	t.Helper()
	for _, j := range m.caught {
		out, err := run(t, dir, j.pkg, j.test, perJudge)
		switch {
		case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
			t.Fatalf("it does not compile: no bug that anybody could make\n%s", out)
		case strings.Contains(out, "no tests to run"):
			t.Fatalf("%s ran nothing", j.test)
		case err != nil:
			return &j
		}
	}
	return nil
}

// run runs some tests of a package, named by a regular expression without anchors.
func run(t *testing.T, dir, pkg, tests, timeout string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-timeout", timeout, "-run", "^("+tests+")$", ".")
	cmd.Dir = filepath.Join(dir, pkg) // so that go finds the module, which may be a nested one
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// judges are all tests that are named, by package.
func judges(all []mutant) map[string][]string {
	tests, seen := map[string][]string{}, map[judge]bool{}
	for _, m := range all {
		for _, j := range m.caught {
			if j.tier = ""; !seen[j] {
				seen[j] = true
				tests[j.pkg] = append(tests[j.pkg], j.test)
			}
		}
	}
	return tests
}
