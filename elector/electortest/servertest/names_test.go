//go:build unix

package servertest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// promised is what the package has exported since it was made public. A name that is
// gone, or has another shape, breaks the tests of programs that we don't know.
var promised = []string{
	"AOF",
	"CA{File}", "CA.Client", "CA.Issue", "NewCA",
	"Cluster{Servers}", "Cluster.Move", "Cluster.Owner", "Cluster.URL", "RedisCluster",
	"Eventually", "FreePort", "MariaDB", "NeedProgram", "NeedRedis", "Postgres", "Version",
	"Redis", "RedisN", "RedisOn", "RedisTLS",
	"Sentinel", "Sentinels{Master,Replicas,Sentinels}", "Sentinels.Promoted", "Sentinels.URL",
	"Server{Port,Dir}", "Server.Addr", "Server.Client", "Server.CutReplication", "Server.Do", "Server.Forget", "Server.Hang",
	"Server.ID", "Server.Kill", "Server.Restart", "Server.URL", "Server.Up", "Server.Wake",
}

func TestExportedNamesAreThePromisedOnes(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			exported = append(exported, exportedBy(d)...)
		}
	}
	for _, name := range promised {
		if !slices.Contains(exported, name) {
			t.Errorf("%s is promised and gone", name)
		}
	}
	for _, name := range exported {
		if !slices.Contains(promised, name) {
			t.Errorf("%s is new: if it is to stay for good, add it to the promised names", name)
		}
	}
}

func exportedBy(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of := d.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			if !ast.IsExported(of.(*ast.Ident).Name) {
				return nil
			}
			name = of.(*ast.Ident).Name + "." + name
		}
		if d.Name.IsExported() {
			names = append(names, name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					names = append(names, spec.Name.Name+fieldsOf(spec.Type))
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

func fieldsOf(x ast.Expr) string {
	s, ok := x.(*ast.StructType)
	if !ok {
		return ""
	}
	var fields []string
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			if name.IsExported() {
				fields = append(fields, name.Name)
			}
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}
