package modules

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

const (
	root    = "../../.."
	library = "github.com/mandate-dev/mandate"
)

// required are the modules that the library's own go.mod may name, and why. Whoever
// adds one adds it to the module graph of everyone who imports elector: it belongs
// into a nested module if it can be there.
var required = map[string]string{
	"github.com/redis/go-redis/v9":         "elector",
	"github.com/go-redsync/redsync/v4":     "elector/internal/quorum",
	"github.com/heptiolabs/healthcheck":    "health/healthhttp",
	"github.com/alicebob/miniredis/v2":     "elector/electortest",
	"go.uber.org/goleak":                   "tests",
	"github.com/prometheus/client_golang":  "healthcheck, elector/electorprom",
	"github.com/spf13/cobra":               "the command",
	"github.com/spf13/pflag":               "the command",
	"golang.org/x/mod":                     "elector/internal/peers",
	"golang.org/x/sys":                     "the command",
	"golang.org/x/term":                    "the command",
	"github.com/rogpeppe/go-internal":      "tests of the command",
	"go.yaml.in/yaml/v3":                   "tests of the command",
	"github.com/cespare/xxhash/v2":         "go-redis",
	"go.uber.org/atomic":                   "go-redis",
	"github.com/yuin/gopher-lua":           "miniredis",
	"gopkg.in/DATA-DOG/go-sqlmock.v1":      "tests of healthcheck",
	"github.com/kr/text":                   "tests of yaml",
	"github.com/inconshreveable/mousetrap": "cobra",
	"github.com/beorn7/perks":              "client_golang",
	"github.com/klauspost/compress":        "client_golang",
	"github.com/munnerz/goautoneg":         "client_golang",
	"github.com/prometheus/client_model":   "client_golang",
	"github.com/prometheus/common":         "client_golang",
	"github.com/prometheus/procfs":         "client_golang",
	"google.golang.org/protobuf":           "client_golang",
	"golang.org/x/tools":                   "go-internal",
}

func TestLibraryRequirements(t *testing.T) {
	m := read(t, ".")
	for _, r := range m.Require {
		if required[r.Path] == "" {
			t.Errorf("go.mod requires %s: move what needs it into a nested module, or say in this test why that can't be", r.Path)
		}
	}
	if len(m.Replace)+len(m.Exclude) > 0 {
		t.Error("go.mod replaces or excludes: `go install` of the command refuses that")
	}
	if m.Go != "1.25.0" {
		t.Errorf("go.mod asks for Go %s: users of 1.25 are shut out", m.Go)
	}
}

// What `go get` of the library does to a program that has most of its dependencies
// already. MVS takes the highest version that anybody asks for, and those who ask are
// our go.mod and the go.mod of what is linked (the rest of the graph is pruned).
func TestGoGetMovesFewModules(t *testing.T) {
	asked := map[string]string{}
	linked := map[string]bool{library: true}
	for _, m := range strings.Fields(run(t, root, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./elector/...", "./health/...")) {
		linked[m] = true
	}
	for line := range strings.Lines(run(t, root, "go", "mod", "graph")) {
		who, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, version, _ := strings.Cut(what, "@")
		if by, _, _ := strings.Cut(who, "@"); linked[by] && semver.Compare(version, asked[path]) > 0 {
			asked[path] = version
		}
	}
	service, err := os.ReadFile("testdata/service.txt")
	if err != nil {
		t.Fatal(err)
	}
	var moved []string
	for line := range strings.Lines(string(service)) {
		if path, version, _ := strings.Cut(strings.TrimSpace(line), " "); semver.Compare(asked[path], version) > 0 && path != "#" {
			moved = append(moved, path)
			t.Logf("%s %s => %s", path, version, asked[path])
		}
	}
	want := []string{"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9", "golang.org/x/sync", "golang.org/x/sys"}
	if !slices.Equal(moved, want) {
		t.Errorf("importing the library moves %q, want %q: require a lower version, if it works", moved, want)
	}
}

// A nested module is tested with the checkout, whatever version it names; and what
// others import keeps to the library's Go.
func TestNestedModulesUseTheCheckout(t *testing.T) {
	dirs := nested(t)
	if len(dirs) < 5 {
		t.Fatalf("only %q found", dirs)
	}
	for _, dir := range dirs {
		m := read(t, dir)
		if m.Module.Path != library+"/"+dir {
			t.Errorf("%s: it is called %s", dir, m.Module.Path)
		}
		up := strings.Repeat("../", strings.Count(dir, "/")) + ".."
		if !slices.ContainsFunc(m.Require, func(r struct{ Path, Version string }) bool { return r.Path == library }) {
			if len(m.Replace) > 0 {
				t.Errorf("%s replaces %+v and does not use the library", dir, m.Replace)
			}
		} else if len(m.Replace) != 1 || m.Replace[0].Old.Path != library || m.Replace[0].New.Path != up {
			t.Errorf("%s replaces %+v, want the library by %s alone", dir, m.Replace, up)
		}
		if (dir == "elector/electorotel" || dir == "elector/electorgrpc") && m.Go != read(t, ".").Go {
			t.Errorf("%s asks for Go %s", dir, m.Go)
		}
	}
	list := strings.Fields(run(t, root, "bash", ".ci/modules"))
	if want := append([]string{"."}, dirs...); !slices.Equal(list, slices.Sorted(slices.Values(prefixed(want)))) {
		t.Errorf(".ci/modules says %q, want %q", list, want)
	}
	doc, err := os.ReadFile(root + "/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if !strings.Contains(string(doc), "\n| `"+dir+"` | ") {
			t.Errorf("CONTRIBUTING.md does not list the module %s", dir)
		}
	}
}

func prefixed(dirs []string) (all []string) {
	for _, d := range dirs {
		if d != "." {
			d = "./" + d
		}
		all = append(all, d)
	}
	return all
}

// goMod is what `go mod edit -json` prints.
type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Exclude []struct{ Path string }
	Replace []struct{ Old, New struct{ Path string } }
}

func read(t *testing.T, dir string) (m goMod) {
	t.Helper()
	if err := json.Unmarshal([]byte(run(t, filepath.Join(root, dir), "go", "mod", "edit", "-json")), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// nested are the directories of all other modules, from the top.
func nested(t *testing.T) (dirs []string) {
	t.Helper()
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.Name() == "go.mod" && filepath.Dir(path) != root:
			dir, err := filepath.Rel(root, filepath.Dir(path))
			dirs = append(dirs, filepath.ToSlash(dir))
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return dirs
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, &errs)
	}
	return string(out)
}
