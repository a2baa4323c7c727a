package mutants

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../../.." // of the repository

// promise is what stands below one heading.
type promise struct {
	text    string
	step    string   // of the argument in docs/safety.md, if it is one
	tests   []string // that attack it, besides the judges
	mutants []*mutant
}

// mutant is one entry.
type mutant struct {
	id, bug   string
	parts     []part
	pkg, test string // the judge
	text      string // all lines, to see whether the entry has changed
}

// part is one replacement.
type part struct{ in, replace, with string }

// files are the entries' files and their contents.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no entries: %v", err)
	}
	contents := map[string][]byte{}
	for _, name := range names {
		if contents[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return contents
}

// all returns the promises of each file.
func all(t *testing.T) map[string][]*promise {
	t.Helper()
	of := map[string][]*promise{}
	for name, text := range files(t) {
		promises, err := parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		of[name] = promises
	}
	return of
}

// load returns the mutants of all files.
func load(t *testing.T) (mutants []*mutant) {
	t.Helper()
	ids := map[string]bool{}
	for name, promises := range all(t) {
		for _, m := range entries(promises) {
			if ids[m.id] {
				t.Fatalf("%s: there are two %s", name, m.id)
			}
			ids[m.id] = true
			mutants = append(mutants, m)
		}
	}
	return mutants
}

// entries are the mutants of all promises.
func entries(promises []*promise) (all []*mutant) {
	for _, p := range promises {
		all = append(all, p.mutants...)
	}
	return all
}

var (
	heading = regexp.MustCompile(`^# (.+)$`)
	first   = regexp.MustCompile(`^([a-z0-9-]+): (.+)$`)
	field   = regexp.MustCompile(`^\t(in|replace|with|judge):(?: (.*))?$`)
)

func parse(text []byte) (all []*promise, err error) {
	var m *mutant
	var last *string // what a line that is indented twice continues
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if s := heading.FindStringSubmatch(line); s != nil {
			all, m = append(all, &promise{text: s[1]}), nil
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%q belongs to no promise", line)
		}
		p := all[len(all)-1]
		switch s := first.FindStringSubmatch(line); {
		case line == "":
			continue
		case s != nil && s[1] == "tests":
			p.tests = strings.Split(s[2], ", ")
			continue
		case s != nil && s[1] == "step":
			p.step = s[2]
			continue
		case s != nil:
			m = &mutant{id: s[1], bug: s[2], text: line}
			p.mutants = append(p.mutants, m)
			continue
		case m == nil:
			return nil, fmt.Errorf("%q belongs to no entry", line)
		}
		m.text += "\n" + line
		switch s := field.FindStringSubmatch(line); {
		case s != nil:
			last, err = m.set(s[1], s[2])
		case strings.HasPrefix(line, "\t\t") && last != nil:
			*last += "\n" + line[2:]
		default:
			err = fmt.Errorf("unknown line %q", line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.id, err)
		}
	}
	return all, nil
}

// set sets a field, and returns what further lines belong to.
func (m *mutant) set(key, value string) (*string, error) {
	switch {
	case key == "in":
		m.parts = append(m.parts, part{in: value})
		return nil, nil
	case key == "judge":
		ok := false
		m.pkg, m.test, ok = strings.Cut(value, " ")
		if !ok {
			return nil, fmt.Errorf("judge: %q is not a package and a test", value)
		}
		return nil, nil
	case len(m.parts) == 0:
		return nil, fmt.Errorf("%s before in", key)
	}
	p := &m.parts[len(m.parts)-1]
	if key == "replace" {
		p.replace = value
		return &p.replace, nil
	}
	p.with = value
	return &p.with, nil
}

// overlay is what the mutant makes of the files that it changes.
func (m *mutant) overlay() (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, p := range m.parts {
		if err := p.apply(changed); err != nil {
			return nil, fmt.Errorf("%s: in %s: %w", m.id, p.in, err)
		}
	}
	return changed, nil
}

// A change of the code that a bug is about shows here, and not when the bugs are made.
func TestEntriesMatch(t *testing.T) {
	for _, m := range load(t) {
		changed, err := m.overlay()
		if err != nil {
			t.Errorf("%v (how to write it anew: see the top of mutants_test.go)", err)
			continue
		}
		for file, src := range changed {
			if err := parses(file, src); err != nil {
				t.Errorf("%s: %v", m.id, err)
			}
		}
		if m.test == "" || !judgeExists(t, m) {
			t.Errorf("%s: there is no judge %s in %s", m.id, m.test, m.pkg)
		}
	}
}

func judgeExists(t *testing.T, m *mutant) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
	must(t, err)
	test, _, _ := strings.Cut(m.test, "/")
	for _, name := range names {
		src, err := os.ReadFile(name)
		must(t, err)
		if bytes.Contains(src, []byte("\nfunc "+test+"(")) {
			return true
		}
	}
	return false
}

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
