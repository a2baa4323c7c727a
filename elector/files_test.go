package elector_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of a package stand above each other: none uses a name of a file that uses one
// of its own, directly or through others. So each can be read with what it builds on, and
// the order of the whole is the order of reading. It holds for all packages of all
// modules but the simulation.
func TestFilesStandAboveEachOther(t *testing.T) {
	t.Parallel()
	modules, err := exec.CommandContext(t.Context(), "bash", "../.ci/modules").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for module := range strings.FieldsSeq(string(modules)) {
		module = filepath.Join("..", module)
		compiled := map[string]string{}
		for _, line := range goList(t, module, "-deps", "-export", "-f={{.ImportPath}}={{.Export}}", "./...") {
			path, export, _ := strings.Cut(line, "=")
			compiled[path] = export
		}
		for _, line := range goList(t, module, `-f={{.ImportPath}}{{range .GoFiles}}={{$.Dir}}/{{.}}{{end}}`, "./...") {
			pkg := strings.Split(line, "=")
			seen++
			if strings.HasSuffix(pkg[0], "/elector/proof/internal/simtest") {
				continue // one simulated world: its hosts, nodes, faults and checks act on each other
			}
			for file, used := range circles(usesBetweenFiles(t, pkg[0], pkg[1:], compiled)) {
				for other, names := range used {
					t.Errorf("%s: in a circle: %s uses %s of %s", pkg[0], file, strings.Join(names, ", "), other)
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d packages", seen)
	}
}

// circles leaves the uses among files that stand on a circle and under one.
func circles(uses map[string]map[string][]string) map[string]map[string][]string {
	for {
		left := maps.Clone(uses)
		for file, used := range uses {
			used := maps.Clone(used)
			maps.DeleteFunc(used, func(other string, _ []string) bool { return len(uses[other]) == 0 })
			if left[file] = used; len(used) == 0 || !slices.ContainsFunc(slices.Collect(maps.Values(uses)), func(of map[string][]string) bool { return of[file] != nil }) {
				delete(left, file)
			}
		}
		if maps.EqualFunc(left, uses, func(a, b map[string][]string) bool { return len(a) == len(b) }) {
			return left
		}
		uses = left
	}
}

// usesBetweenFiles are the names of other files of the package that each of its files uses:
// types, functions, methods, fields, constants and variables.
func usesBetweenFiles(t *testing.T, path string, paths []string, compiled map[string]string) map[string]map[string][]string {
	t.Helper()
	fset, info := token.NewFileSet(), &types.Info{Uses: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	uses := map[string]map[string][]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		uses[filepath.Base(path)] = map[string][]string{}
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })}
	pkg, err := conf.Check(path, fset, files, info)
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
