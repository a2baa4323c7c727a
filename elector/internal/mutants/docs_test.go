package mutants

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	safety  = root + "/docs/safety.md"
	servers = root + "/docs/servers.md"

	open = "<!-- mutants: go test ./elector/internal/mutants -update -->\n"
	shut = "<!-- end -->\n"
)

var update = flag.Bool("update", false, "write the table of mutants into docs/safety.md")

// The document's table of mutants is made of the patches' headers. The text above it gives no
// number of them: two branches that each add a mutant would make it wrong without a conflict.
func TestSafetyListsTheMutants(t *testing.T) {
	doc, err := os.ReadFile(safety)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(doc), open)
	_, after, ok2 := strings.Cut(rest, shut)
	if !ok1 || !ok2 {
		t.Fatal("the marks of the table are missing")
	}
	var table strings.Builder
	table.WriteString("\n| the mistake | the tier and the test that notice |\n|---|---|\n")
	for _, m := range load(t) {
		fmt.Fprintf(&table, "| %s | %s: `%s` |\n", m.breaks, m.caught[0].tier, m.caught[0].test)
	}
	want := before + open + table.String() + "\n" + shut + after
	if *update {
		if err := os.WriteFile(safety, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(doc) {
		t.Error("docs/safety.md lists other mutants than testdata: go test ./elector/internal/mutants -update")
	}
}

// A claim whose test was renamed, or never was, is none.
func TestSafetyNamesRealTests(t *testing.T) {
	exist := testNames(t)
	for doc, least := range map[string]int{safety: 50, servers: 10} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		named := namedTests.FindAllSubmatch(text, -1)
		if len(named) < least {
			t.Fatalf("%s names only %d tests", doc, len(named))
		}
		for _, m := range named {
			if !exist[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
	}
}

// Each row of the table of servers has one of three words for how it is known;
// "tested" is followed by the tests, which the test above looks up, and "by
// reading" by what was read.
func TestServersAreTestedOrSaidNotToBe(t *testing.T) {
	doc, err := os.ReadFile(servers)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| server or service |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 12 {
		t.Fatalf("only %d servers", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(row, "|")
		server, status := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		switch kind, how, _ := strings.Cut(status, ":"); {
		case kind == "tested" && namedTests.MatchString(how):
		case strings.HasPrefix(status, "by reading ["), kind == "by reading" && how != "":
		case strings.HasPrefix(status, "unknown"):
		default:
			t.Errorf("%s: %q tells neither which test runs on it, nor what was read, nor that it is unknown", server, status)
		}
	}
}

var namedTests = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")

// testNames are all tests of the module.
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
