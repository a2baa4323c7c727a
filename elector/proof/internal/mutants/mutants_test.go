// Package mutants lists what the project promises, with the tests that attack each
// promise, and holds deliberate bugs that break it: a test that has never failed
// proves little. `make claims` writes the list to bin/claims.md.
//
// The promises are the headings of testdata/*.txt, the bugs the entries below them:
//
//	# the lease counts from when the request was sent
//	step: 1
//	tests: TestAnchorIsTheRequestNotTheAnswer, make model
//
//	lease-from-the-answer: the time that the answer took is given away
//		in: elector machine.claimAndJudge
//		replace: lease.NewGrant(m.clock, m.timing, sent)
//		with: lease.NewGrant(m.clock, m.timing, m.clock.Now())
//		judge: elector TestDeadlineCountsFromTheRequest
//
// "in" names a package's folder and a top-level function, method (Type.Name), type,
// constant or variable in it, or a Lua script. The fragment to replace must be there
// exactly once; it is compared token by token, so spaces, line breaks and comments
// do not matter. A longer fragment continues on lines that are indented twice. A bug
// of several parts has several in, replace and with. "judge" is the package and the
// test, or subtest, that must fail. "tests" are others that attack the promise. "step"
// is the number of the promise in the argument of docs/safety.md.
//
// An ordinary test run only checks that every fragment is found, that the outcome
// parses, and that the judges exist. `make mutants` makes one bug at a time, with go
// test -overlay, and runs its judge.
//
// When a fragment is not found any more, write the same bug for the code of today.
// When the bug has become impossible, delete the entry.
package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

var (
	which = flag.String("mutants", "", "make the deliberate bugs whose id matches this regular expression")
	near  = flag.String("near", "", "only those that may be about what changed since this commit, and some of the others")
)

const (
	atOnce    = 2
	nearLimit = 20    // at most this many with -near
	perJudge  = "2m"  // a bug that makes its judge hang is noticed, too
	together  = "10m" // for all judges of a package, without a bug
)

// TestMutants makes each bug on its own and wants it to be noticed.
func TestMutants(t *testing.T) {
	if *which == "" {
		t.Skip("it takes minutes: make mutants runs it, in CI too")
	}
	re := regexp.MustCompile(*which)
	all := slices.DeleteFunc(load(t), func(m *mutant) bool { return !re.MatchString(m.id) })
	if *near != "" {
		all = nearBy(t, all)
	}
	slices.SortFunc(all, func(a, b *mutant) int { return strings.Compare(a.pkg+a.id, b.pkg+b.id) })
	for pkg, tests := range judges(all) { // a judge that condemns everybody proves nothing
		if out, err := run(t.Context(), pkg, strings.Join(tests, "|"), together); err != nil {
			t.Fatalf("the judges of %s fail without any bug:\n%s", pkg, out)
		}
	}
	var wg sync.WaitGroup
	queue := make(chan *mutant)
	for range atOnce {
		wg.Go(func() {
			for m := range queue {
				judge(t, m)
			}
		})
	}
	for _, m := range all {
		queue <- m
	}
	close(queue)
	wg.Wait()
}

// judge makes one bug and runs its judge.
func judge(t *testing.T, m *mutant) {
	start := time.Now()
	overlay, err := m.write(t.TempDir())
	if err != nil {
		t.Error(err)
		return
	}
	out, err := run(t.Context(), m.pkg, pattern(m.test), perJudge, "-overlay", overlay)
	for range 2 { // some judges need chance on their side, such as who comes first
		if err == nil {
			out, err = run(t.Context(), m.pkg, pattern(m.test), perJudge, "-overlay", overlay)
		}
	}
	took := time.Since(start).Seconds()
	switch {
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		t.Errorf("%s does not compile: no bug that anybody could make\n%s", m.id, out)
	case strings.Contains(out, "no tests to run"):
		t.Errorf("%s: %s ran nothing", m.id, m.test)
	case err == nil:
		t.Errorf("SURVIVED %s: %s does not notice that %s", m.id, m.test, m.bug)
	case strings.Contains(out, "panic: test timed out"): // or the machine was busy
		fmt.Printf("  hangs  %5.1fs  %-50s in %s %s\n", took, m.id, m.pkg, m.test)
	default:
		fmt.Printf("  killed %5.1fs  %-50s by %s %s\n", took, m.id, m.pkg, m.test)
	}
}

// write writes the changed files and the overlay that puts them in the place of the repository's.
func (m *mutant) write(dir string) (overlay string, err error) {
	changed, err := m.overlay()
	if err != nil {
		return "", err
	}
	var o struct{ Replace map[string]string }
	o.Replace = map[string]string{}
	for file, src := range changed {
		file, err = filepath.Abs(file)
		if err != nil {
			return "", err
		}
		copied := filepath.Join(dir, fmt.Sprint(len(o.Replace), filepath.Ext(file)))
		o.Replace[file] = copied
		if err := os.WriteFile(copied, src, 0o600); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// run runs the tests of a package that match.
func run(ctx context.Context, pkg, tests, timeout string, flags ...string) (out string, err error) {
	args := append([]string{"test", "-vet=off", "-count=1", "-timeout", timeout, "-run", tests}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = filepath.Join(root, pkg)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// pattern matches a test, or a subtest, and no other.
func pattern(test string) string { return "^" + strings.ReplaceAll(test, "/", "$/^") + "$" }

// judges are the patterns of all tests that are named, by package.
func judges(all []*mutant) map[string][]string {
	tests := map[string][]string{}
	for _, m := range all {
		if p := pattern(m.test); !slices.Contains(tests[m.pkg], p) {
			tests[m.pkg] = append(tests[m.pkg], p)
		}
	}
	return tests
}

// nearBy selects the mutants whose entry, changed files or judge's package differ from the commit *near, and a tenth of
// the others, another one for each commit.
func nearBy(t *testing.T, all []*mutant) (some []*mutant) {
	t.Helper()
	old := map[string]bool{}
	for name := range files(t) {
		text, err := exec.CommandContext(t.Context(), "git", "show", *near+":./"+name).Output()
		if before, err2 := parse(text); err == nil && err2 == nil {
			for _, m := range entries(before) {
				old[m.text] = true
			}
		}
	}
	changed := strings.Fields(git(t, "diff", "--name-only", *near))
	head := git(t, "rev-parse", "HEAD")
	draw := func(m *mutant) uint32 {
		h := fnv.New32a()
		fmt.Fprint(h, head, m.id)
		return h.Sum32()
	}
	slices.SortFunc(all, func(a, b *mutant) int { return int(int64(draw(a)) - int64(draw(b))) })
	var rest []*mutant
	for _, m := range all {
		if !old[m.text] || m.isAbout(t, changed) {
			some = append(some, m)
		} else {
			rest = append(rest, m)
		}
	}
	count := len(some)
	some = append(some, rest[:(len(rest)+9)/10]...)
	some = some[:min(len(some), nearLimit)]
	fmt.Printf("%d of %d deliberate bugs are about what changed since %s; making %d:\n", count, len(all), *near, len(some))
	for _, m := range some {
		fmt.Println("  " + m.id)
	}
	return some
}

// isAbout is true when a changed file is one that the mutant changes, or in its judge's package.
func (m *mutant) isAbout(t *testing.T, changed []string) bool {
	t.Helper()
	made, err := m.overlay()
	must(t, err)
	return slices.ContainsFunc(changed, func(name string) bool {
		return made[filepath.Join(root, name)] != nil || filepath.Dir(name) == m.pkg
	})
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

var out = flag.String("out", "", "write the list of all promises to this file")

// Each step of the argument in docs/safety.md is a promise here, with tests and bugs. A promise that no bug breaks may have
// tests that can't fail.
func TestClaims(t *testing.T) {
	has := map[string]bool{}
	for name, promises := range all(t) {
		for _, p := range promises {
			if has[p.step] = true; len(p.mutants) == 0 {
				t.Errorf("%s: no deliberate bug breaks the promise %q", name, p.text)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/safety.md"))
	must(t, err)
	steps := regexp.MustCompile(`(?m)^(\d+)\. \*`).FindAllSubmatch(text, -1)
	if len(steps) < 9 {
		t.Errorf("docs/safety.md has %d steps", len(steps))
	}
	for _, s := range steps {
		if !has[string(s[1])] {
			t.Errorf("no promise is step %s of docs/safety.md", s[1])
		}
	}
	if *out != "" {
		must(t, os.WriteFile(*out, claims(t), 0o600))
	}
}

// A claim whose test was renamed, or never was, is none.
func TestDocumentsNameExistingTests(t *testing.T) {
	exist, pages := testNames(t), map[string][]byte{"the list of claims": claims(t)}
	for _, doc := range []string{"safety.md", "servers.md", "compare.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", doc))
		must(t, err)
		pages[doc] = text
	}
	for page, text := range pages {
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)").FindAllSubmatch(text, -1) {
			if !exist[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

const intro = `# Claims, their tests, and deliberate bugs

What mandate promises; the tests that try to break each promise; and the bugs that ` + "`make mutants`" + ` makes, one at a time, to see
that a test notices them. ` + "`make test`" + ` runs these tests, except those with ` + "`Real`" + ` in their names (` + "`make real`" + `) and
` + "`TestSimulation`" + ` (` + "`make sim`" + `). Why the promises hold: docs/safety.md. *L* is the lease. Links are those of docs/.
`

// claims is the page of all promises.
func claims(t *testing.T) []byte {
	t.Helper()
	var w bytes.Buffer
	w.WriteString(intro)
	all := all(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		title := strings.TrimSuffix(filepath.Base(name), ".txt")
		fmt.Fprintf(&w, "\n## %s\n", capital(title))
		for _, p := range all[name] {
			p.write(&w)
		}
	}
	return w.Bytes()
}

// write writes a promise, its tests, the judges first, and its bugs.
func (p *promise) write(w *bytes.Buffer) {
	fmt.Fprintf(w, "\n**%s**\n\n", capital(p.text))
	var tests []string
	for _, m := range p.mutants {
		test, _, _ := strings.Cut(m.test, "/")
		tests = append(tests, test)
	}
	var quoted []string
	for _, test := range append(tests, p.tests...) {
		if q := "`" + test + "`"; !slices.Contains(quoted, q) {
			quoted = append(quoted, q)
		}
	}
	fmt.Fprintf(w, "%s\n", strings.Join(quoted, ", "))
	fmt.Fprint(w, "\n| deliberate bug | what it lets happen | noticed by |\n|---|---|---|\n")
	for _, m := range p.mutants {
		fmt.Fprintf(w, "| %s | %s | `%s` |\n", m.id, strings.ReplaceAll(m.bug, "|", "\\|"), m.test)
	}
}

// capital returns a text with a capital at its beginning, unless it begins with code or a link.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// testNames are all tests of the repository, in whatever module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	def := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	exist := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		for _, m := range def.FindAllSubmatch(src, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	must(t, err)
	return exist
}
