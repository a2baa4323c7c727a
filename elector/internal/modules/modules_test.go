// Package modules tests what importing the library brings into other people's
// module graphs, and that a release can be installed. CONTRIBUTING.md has the list
// of the modules of this repository and the reasons.
package modules

import (
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
	want := []string{"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9", "github.com/stretchr/testify", "golang.org/x/sync", "golang.org/x/sys"}
	if !slices.Equal(moved, want) {
		t.Errorf("importing the library moves %q, want %q: require a lower version, if it works", moved, want)
	}
}

// A module whose tests no step runs would break unseen. Those with Real in their names run in whatever module they are.
func TestMakeTestRunsEveryModule(t *testing.T) {
	if _, err := os.ReadFile(filepath.Join(root, "Makefile")); err != nil { // so that go test notices another one
		t.Fatal(err)
	}
	words := strings.Fields(run(t, root, "make", "-n", "test", "MAKEFLAGS="))
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if pattern := "./" + filepath.Join(dir, "..."); !slices.Contains(words, pattern) {
			t.Errorf("make test does not run %s: %q", pattern, words)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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
