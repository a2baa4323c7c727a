package mutants

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// word is a token and where it is in the source.
type word struct {
	text       string
	begin, end int
}

// apply replaces the part's fragment in the files that were changed already, or else in the repository's.
func (p part) apply(changed map[string][]byte) error {
	candidates, name, err := p.files()
	if err != nil {
		return err
	}
	want := words(p.in, []byte(p.replace))
	if len(want) == 0 {
		return errors.New("nothing to replace")
	}
	var file string
	var at []word // of all places, one after the other
	for _, f := range candidates {
		src, err := source(f, changed)
		if err != nil {
			return err
		}
		found, err := find(f, src, name, want)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			file, at = f, append(at, found...)
		}
	}
	if len(at) != 1 {
		return fmt.Errorf("%d places instead of one have:\n%s", len(at), p.replace)
	}
	src, err := source(file, changed)
	if err != nil {
		return err
	}
	changed[file] = []byte(string(src[:at[0].begin]) + p.with + string(src[at[0].end:]))
	return nil
}

// files are those in which the part's place is looked for, and the name of its declaration.
func (p part) files() (files []string, name string, err error) {
	folder, name, ok := strings.Cut(p.in, " ")
	if !ok {
		return []string{filepath.Join(root, p.in)}, "", nil
	}
	all, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	for _, f := range all {
		if !strings.HasSuffix(f, "_test.go") {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, "", cmp.Or(err, errors.New("no Go files"))
	}
	return files, name, nil
}

func source(file string, changed map[string][]byte) ([]byte, error) {
	if src, ok := changed[file]; ok {
		return src, nil
	}
	return os.ReadFile(file)
}

// find returns the places in the declaration of that name, or in the whole file without one, that have the words wanted.
func find(file string, src []byte, name string, want []word) (places []word, err error) {
	begin, end := 0, len(src)
	if name != "" {
		if begin, end, err = declaration(file, src, name); err != nil {
			return nil, err
		}
	}
	have := words(file, src[begin:end])
	for i := 0; i+len(want) <= len(have); i++ {
		if !same(have[i:i+len(want)], want) {
			continue
		}
		places = append(places, word{begin: begin + have[i].begin, end: begin + have[i+len(want)-1].end})
	}
	return places, nil
}

func same(a, b []word) bool {
	for i := range a {
		if a[i].text != b[i].text {
			return false
		}
	}
	return true
}

// declaration is where the file declares that name, an empty place when it doesn't.
func declaration(file string, src []byte, name string) (begin, end int, err error) {
	_, own, _ := strings.Cut(name, ".")
	if !bytes.Contains(src, []byte(cmp.Or(own, name))) {
		return 0, 0, nil // to parse takes longer
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range f.Decls {
		for node, of := range declared(d) {
			if of == name {
				return fset.Position(node.Pos()).Offset, fset.Position(node.End()).Offset, nil
			}
		}
	}
	return 0, 0, nil
}

func declared(d ast.Decl) map[ast.Node]string {
	names := map[ast.Node]string{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		names[d] = d.Name.Name
		if d.Recv != nil {
			names[d] = receiver(d.Recv.List[0].Type) + "." + d.Name.Name
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names[s] = s.Name.Name
			case *ast.ValueSpec:
				names[s] = s.Names[0].Name
			}
		}
	}
	return names
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func words(file string, src []byte) []word {
	if strings.HasSuffix(file, ".lua") {
		return luaWords(src)
	}
	return goWords(src)
}

// goWords are the tokens without what gofmt adds or drops with a line break.
func goWords(src []byte) (all []word) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, 0)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON {
			text = ";"
		}
		closes := tok == token.RPAREN || tok == token.RBRACE
		if n := len(all); closes && n > 0 && (all[n-1].text == ";" || all[n-1].text == ",") {
			all = all[:n-1]
		}
		text = cmp.Or(text, tok.String())
		begin := file.Offset(pos)
		all = append(all, word{text, begin, begin + len(text)})
	}
	if n := len(all); n > 0 && all[n-1].text == ";" {
		all = all[:n-1]
	}
	return all
}

var luaWord = regexp.MustCompile(`--[^\n]*|\w+|'[^'\n]*'|"[^"\n]*"|[^\s\w]`)

func luaWords(src []byte) (all []word) {
	for _, at := range luaWord.FindAllIndex(src, -1) {
		if text := string(src[at[0]:at[1]]); !strings.HasPrefix(text, "--") {
			all = append(all, word{text, at[0], at[1]})
		}
	}
	return all
}

// parses reports what is wrong with the syntax of a changed file; only Go files are checked.
func parses(file string, src []byte) error {
	if !strings.HasSuffix(file, ".go") {
		return nil
	}
	_, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	return err
}
