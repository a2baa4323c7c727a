package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"testing"
)

// A mistake that no longer compiles is one that nobody could make. Only make mutants, which takes minutes, would tell
// otherwise.
func TestPatchesCompile(t *testing.T) {
	needGit(t)
	dir := copyModule(t)
	code := listCode(t)
	for _, m := range load(t) {
		if err := apply(dir, m); err != nil {
			t.Error(err)
			continue
		}
		for _, pkg := range patched(m) {
			if err := code.check(filepath.Join(dir, pkg), pkg); err != nil {
				t.Errorf("testdata/%s.patch does not compile any more (how to refresh it: see doc.go):\n%v", m.name, err)
			}
		}
		if err := undo(dir, m); err != nil {
			t.Fatal(err)
		}
	}
}

// patched are the folders of Go files that a patch changes.
func patched(m mutant) []string {
	pkgs := map[string]bool{}
	for _, name := range touched.FindAllSubmatch(m.patch, -1) {
		if file := string(name[1]); filepath.Ext(file) == ".go" {
			pkgs[filepath.Dir(file)] = true
		}
	}
	return slices.Sorted(maps.Keys(pkgs))
}

// code is what the go command knows of our packages and of all that they import.
type code struct {
	ours  map[string]goPackage // by folder
	types types.Importer       // as they are without a mutant
	fset  *token.FileSet
}

// goPackage is a package as go list prints it.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

func listCode(t *testing.T) code {
	t.Helper()
	c := code{ours: map[string]goPackage{}, fset: token.NewFileSet()}
	exports := map[string]string{}
	for _, module := range []string{".", "cmd/mandate"} {
		for _, p := range list(t, filepath.Join(root, module)) {
			exports[p.ImportPath] = p.Export
			if p.Module == nil || !p.Module.Main {
				continue
			}
			folder, err := filepath.Rel(abs(t, root), p.Dir)
			if err != nil {
				t.Fatal(err)
			}
			c.ours[folder] = p
		}
	}
	c.types = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

func list(t *testing.T, dir string) (all []goPackage) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// check type-checks the files in dir as those of the package in the folder.
func (c code) check(dir, folder string) error {
	p, ok := c.ours[folder]
	if !ok {
		return errors.New("no package of Go files in " + folder)
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err := (&types.Config{Importer: c.types}).Check(p.ImportPath, c.fset, files, nil)
	return err
}
