package mutants

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/generated/claims.md")

const page = root + "/docs/generated/claims.md"

// Who changes a promise, its tests or its bugs writes the page anew.
func TestClaimsAreListed(t *testing.T) {
	want := claims(t)
	if *update {
		if err := os.WriteFile(page, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/generated/claims.md is not what the entries say: make claims (%v)", err)
	}
}

// A promise that no bug breaks may have tests that can't fail.
func TestEachPromiseHasABug(t *testing.T) {
	for name, text := range files(t) {
		promises, err := parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range promises {
			if len(p.mutants) == 0 {
				t.Errorf("%s: no deliberate bug breaks the promise %q", name, p.text)
			}
		}
	}
}

// A claim whose test was renamed, or never was, is none.
func TestDocumentsNameExistingTests(t *testing.T) {
	exist := testNames(t)
	for _, doc := range []string{"safety.md", "servers.md", "generated/claims.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)").FindAllSubmatch(text, -1) {
			if !exist[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
	}
}

const intro = `# Claims, their tests, and deliberate bugs

<!-- Written by "make claims" from elector/proof/internal/mutants/testdata: do not edit. -->

What mandate promises; the tests that try to break each promise; and the bugs that ` + "`make mutants`" + ` makes, one at a time, to see
that a test notices them. ` + "`make test`" + ` runs these tests, except those with ` + "`Real`" + ` in their names (` + "`make real`" + `) and
` + "`TestSimulation`" + ` (` + "`make sim`" + `). Why the promises hold: [safety.md](../safety.md). *L* is the lease.
`

// claims is the page of all promises.
func claims(t *testing.T) []byte {
	t.Helper()
	var w bytes.Buffer
	w.WriteString(intro)
	all := files(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		title := strings.TrimSuffix(filepath.Base(name), ".txt")
		fmt.Fprintf(&w, "\n## %s\n", capital(title))
		promises, err := parse(all[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range promises {
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
	if err != nil {
		t.Fatal(err)
	}
	return exist
}
