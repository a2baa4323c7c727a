package mutants

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// apply replaces the part's fragment in the files that were changed already, or else in the repository's.
func (p part) apply(changed map[string][]byte) error {
	files, place, err := p.place()
	if err != nil {
		return err
	}
	want := fragment(p.replace)
	count := 0
	after := map[string][]byte{}
	for _, file := range files {
		src, ok := changed[file]
		if !ok {
			if src, err = os.ReadFile(file); err != nil {
				return err
			}
		}
		for _, area := range place.FindAllIndex(src, -1) {
			for _, at := range want.FindAllIndex(src[area[0]:area[1]], -1) {
				count++
				after[file] = []byte(string(src[:area[0]+at[0]]) + p.with + string(src[area[0]+at[1]:]))
			}
		}
	}
	if count != 1 {
		return fmt.Errorf("%d places instead of one have:\n%s", count, p.replace)
	}
	for file, src := range after {
		changed[file] = src
	}
	return nil
}

// place returns the files in which the part's place is looked for, and what matches it there: a function, a method, a
// type, a variable or constant of one line, or a whole file.
func (p part) place() (files []string, place *regexp.Regexp, err error) {
	folder, name, ok := strings.Cut(p.in, " ")
	if !ok {
		return []string{filepath.Join(root, p.in)}, regexp.MustCompile(`(?s)^.+$`), nil
	}
	all, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	for _, f := range all {
		if !strings.HasSuffix(f, "_test.go") {
			files = append(files, f)
		}
	}
	begin := `(?:func|type) ` + name + `\b`
	if of, method, ok := strings.Cut(name, "."); ok {
		begin = `func \(\w+ \*?` + of + `(?:\[\w+\])?\) ` + method + `\b`
	}
	// The first line may be the only one.
	return files, regexp.MustCompile(`(?m)^` + begin + `.*\}$|^` + begin + `(?s:.*?)^\}|^(?:var|const) ` + name + `\b.*$`), err
}

var (
	word = regexp.MustCompile(`\w+|[^\s\w]`)
	edge = regexp.MustCompile(`^\w+$`)
)

// fragment matches the words of a text with whatever is between them: spaces, line breaks, comments, and what gofmt adds or drops
// with a line break.
func fragment(text string) *regexp.Regexp {
	var parts []string
	for _, w := range word.FindAllString(text, -1) {
		if w == ";" {
			parts = append(parts, ";?")
			continue
		}
		parts = append(parts, edge.ReplaceAllString(regexp.QuoteMeta(w), `\b`+"$0"+`\b`))
	}
	return regexp.MustCompile(strings.Join(parts, `(?:\s|,\s*\n|//[^\n]*\n|-- [^\n]*\n)*`))
}

// parses reports what is wrong with the syntax of a changed file; only Go files are checked.
func parses(file string, src []byte) error {
	if !strings.HasSuffix(file, ".go") {
		return nil
	}
	_, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	return err
}
