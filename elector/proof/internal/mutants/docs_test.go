package mutants

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A claim whose test was renamed, or never was, is none.
func TestSafetyNamesRealTests(t *testing.T) {
	exist := testNames(t)
	for _, doc := range []string{"safety.md", "servers.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(text, -1) {
			if !exist[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
	}
}

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
