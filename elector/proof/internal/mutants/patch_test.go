package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/internal/servertest"
)

const root = "../../../.." // of the repository

// tiers as CONTRIBUTING.md has them, from cheap to dear.
var tiers = []string{"unit", "conformance", "scenario", "simulation"}

// mutant is one patch.
type mutant struct {
	name   string
	patch  []byte
	breaks string
	caught []judge
}

// judge is a test that must notice.
type judge struct{ tier, pkg, test string }

func load(t *testing.T) []mutant {
	t.Helper()
	files, err := filepath.Glob("testdata/*.patch")
	if err != nil || len(files) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	var all []mutant
	for _, f := range files {
		m, err := parse(f)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, m)
	}
	return all
}

func parse(file string) (mutant, error) {
	patch, err := os.ReadFile(file)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), patch: patch}
	header, _, ok := bytes.Cut(patch, []byte("\ndiff --git "))
	if !ok {
		return m, errors.New("no diff in it")
	}
	for line := range strings.Lines(string(header)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "":
		case "Breaks":
			m.breaks = value
		case "Caught-by":
			f := strings.Fields(value)
			if len(f) != 3 || !slices.Contains(tiers, f[0]) {
				return m, fmt.Errorf("%q: want <tier> <package> <test>, with a tier of %v", value, tiers)
			}
			m.caught = append(m.caught, judge{f[0], f[1], f[2]})
		default:
			return m, fmt.Errorf("unknown header line %q", line)
		}
	}
	if m.breaks == "" || len(m.caught) == 0 {
		return m, errors.New("the header needs Breaks and Caught-by")
	}
	return m, nil
}

// apply makes the mistake in a copy of the module. The lines around it must be the
// patch's: without them git puts a line back where the patch once counted it.
func apply(dir string, m mutant, flags ...string) error {
	cmd := exec.Command("git", append([]string{"apply"}, flags...)...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(m.patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // the copy is in no repository
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("testdata/%s.patch does not apply any more (how to refresh it: see doc.go):\n%s", m.name, out)
	}
	return nil
}

// undo brings back the files that a patch names. (To apply it in reverse may put its
// lines beside another place that looks the same, and the next mutants would run in
// code that nobody wrote.)
func undo(dir string, m mutant) error {
	for _, name := range touched.FindAllSubmatch(m.patch, -1) {
		b, err := os.ReadFile(filepath.Join(root, string(name[1])))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, string(name[1])), b, 0o600)
		}
		if err != nil {
			return fmt.Errorf("undoing %s: %w", m.name, err)
		}
	}
	return nil
}

var touched = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)

// needGit skips where the patches can't be applied: the checkout may be an archive.
func needGit(t *testing.T) {
	t.Helper()
	servertest.NeedProgram(t, "apt-get install git", "git")
}

// A change of the code that a patch is about shows here, and not months later. And no
// mutant leaves anything behind for the next.
func TestPatchesApply(t *testing.T) {
	needGit(t)
	dir := copyModule(t)
	for _, m := range load(t) {
		if err := apply(dir, m); err != nil {
			t.Error(err)
			continue
		}
		if err := undo(dir, m); err != nil {
			t.Fatal(err)
		}
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		want, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("a mutant was left in %s (%v)", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestJudgesExist(t *testing.T) {
	for _, m := range load(t) {
		for _, j := range m.caught {
			if !exists(t, j) {
				t.Errorf("testdata/%s.patch: there is no %s in %s", m.name, j.test, j.pkg)
			}
		}
	}
}

func exists(t *testing.T, j judge) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, j.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	def := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(j.test) + `\(`)
	return slices.ContainsFunc(files, func(f string) bool {
		src, err := os.ReadFile(f)
		return err == nil && def.Match(src)
	})
}

// copyModule copies what the judges need, nested modules included.
func copyModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"elector", "health", "cmd"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
