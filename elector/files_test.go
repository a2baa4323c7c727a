package elector_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of a package stand above each other: none uses a name of a file that uses one
// of its own, directly or through others. So each can be read with what it builds on, and
// the order of the whole is the order of reading.
func TestFilesStandAboveEachOther(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{
		".", "internal/quorum", "internal/peers", "internal/pubsub", "internal/standby", "internal/conns",
		"internal/access", "internal/lease", "internal/testcluster", "internal/testprogress", "internal/testredis",
		"internal/group",
		"doctor", "electorhttp", "electorhttp/webguard", "electortest", "electortest/servertest", "fence", "../health",
		"../cmd/mandate", "../cmd/mandate/internal/demo", "../cmd/mandate/internal/exporter", "../cmd/mandate/internal/output", "../cmd/mandate/internal/supervise", "../cmd/mandate/internal/console",
	} {
		uses := usesBetweenFiles(t, dir)
		if len(uses) < 2 {
			t.Fatalf("%s: only %d files", dir, len(uses))
		}
		for len(uses) > 0 {
			free := slices.Collect(func(yield func(string) bool) {
				for file, used := range uses {
					if len(used) == 0 && !yield(file) {
						return
					}
				}
			})
			if len(free) == 0 {
				break
			}
			for _, done := range free {
				delete(uses, done)
				for _, used := range uses {
					delete(used, done)
				}
			}
		}
		for file, used := range uses {
			for other, names := range used {
				t.Errorf("%s: part of, or above, a circle: %s uses %s of %s", dir, file, strings.Join(names, ", "), other)
			}
		}
	}
}

// usesBetweenFiles are the names of other files of the package that each of its files uses:
// types, functions, methods, fields, constants and variables.
func usesBetweenFiles(t *testing.T, dir string) map[string]map[string][]string {
	t.Helper()
	fset, info := token.NewFileSet(), &types.Info{Uses: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	uses := map[string]map[string][]string{}
	for _, path := range goList(t, dir, `-f={{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`) {
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		uses[filepath.Base(path)] = map[string][]string{}
	}
	compiled := map[string]string{}
	for _, line := range goList(t, dir, "-deps", "-export", "-f={{.ImportPath}}={{.Export}}") {
		path, export, _ := strings.Cut(line, "=")
		compiled[path] = export
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })}
	pkg, err := conf.Check(dir, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	for id, object := range info.Uses {
		if f, ok := object.(*types.Func); ok {
			object = f.Origin()
		}
		of, ok := object.(*types.Var)
		declared := object.Parent() == pkg.Scope() || ok && of.IsField() || object.Parent() == nil
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)
		if object.Pkg() == pkg && declared && from != to && !slices.Contains(uses[from][to], object.Name()) {
			uses[from][to] = append(uses[from][to], object.Name())
		}
	}
	return uses
}

func goList(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}
