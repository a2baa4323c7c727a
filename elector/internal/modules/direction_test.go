package modules

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// In package elector the files that begin with election are the handle of operators, and the others the lock. The lock
// uses types of the handle, and nothing else of it: who reads whether there can be two leaders need not read the handle.
func TestTheLockDoesNotUseTheHandleOfOperators(t *testing.T) {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, fset := packageElector(t, &info)
	handle := func(pos token.Pos) bool { return strings.HasPrefix(filepath.Base(fset.File(pos).Name()), "election") }
	uses := 0
	for id, used := range info.Uses {
		if used.Pkg() != pkg || handle(id.Pos()) == handle(used.Pos()) {
			continue
		}
		switch v, isVar := used.(*types.Var); {
		case handle(id.Pos()):
			uses++
		case isVar && v.IsField():
		default:
			if _, isType := used.(*types.TypeName); !isType {
				t.Errorf("%v: the lock uses %s, of the handle of operators: %v", fset.Position(id.Pos()), used.Name(), fset.Position(used.Pos()))
			}
		}
	}
	if uses == 0 {
		t.Error("the handle uses nothing of the lock: are the files found?")
	}
}

// maxNames is how many names package elector shows: its exported types, functions, variables and constants, each of a group.
const maxNames = 55

// What users may use of package elector fits on a screen.
func TestPackageElectorShowsFewNames(t *testing.T) {
	pkg, _ := packageElector(t, &types.Info{})
	names := slices.DeleteFunc(pkg.Scope().Names(), func(name string) bool { return !token.IsExported(name) })
	if len(names) > maxNames || len(names) < maxNames/2 {
		t.Errorf("package elector shows %d names, at most %d: %s", len(names), maxNames, strings.Join(names, " "))
	}
}

// packageElector checks the types of package elector without its tests.
func packageElector(t *testing.T, info *types.Info) (*types.Package, *token.FileSet) {
	t.Helper()
	exports := map[string]string{}
	for line := range strings.Lines(run(t, root, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./elector")) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	files, err := filepath.Glob(filepath.Join(root, "elector", "*.go"))
	must(t, err)
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		must(t, err)
		parsed = append(parsed, f)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := conf.Check(library+"/elector", fset, parsed, info)
	must(t, err)
	return pkg, fset
}
