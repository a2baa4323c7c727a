package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/shard"
)

var update = flag.Bool("update", false, "write docs/generated")

const jsonIntro = `# The objects of JSON

<!-- Written by "make claims" from the Go types and their comments: do not edit. -->

The rules, and which command prints what, are in [json.md](../json.md). A key with *?* is
left out where it is false, zero, empty or not known.
`

// jsonObject is a section of the page. The keys of an object may come from two types.
type jsonObject struct {
	title string
	of    []any
}

var jsonObjects = []jsonObject{
	{"Election", []any{elector.Status{}, reportMore{}}},
	{"Leader", []any{elector.Leader{}}},
	{"Node", []any{elector.NodeStatus{}}},
	{"Candidate", []any{elector.CandidateStatus{}}},
	{"Voting node", []any{elector.VotingNode{}}},
	{"History", []any{history{}}},
	{"Term", []any{elector.TermRecord{}}},
	{"Pause", []any{elector.PauseRecord{}}},
	{"Event", []any{elector.Event{}}},
	{"Group", []any{shard.Status{}}},
	{"Member", []any{shard.MemberStatus{}}},
	{"Missing member", []any{shard.MissingMember{}}},
	{"Unowned shard", []any{shard.Vacancy{}}},
	{"Job", []any{tickJSON{}}},
	{"Run", []any{fence.Ran{}}},
	{"Gap", []any{fence.Skip{}}},
	{"Finding", []any{doctor.Finding{}}},
	{"Handover", []any{handoverJSON{}}},
	{"Pausing", []any{pauseJSON{}}},
	{"Leadership", []any{electorhttp.Leadership{}}},
}

// Who changes a type that is printed, or its comments, writes the page anew.
func TestJSONPage(t *testing.T) {
	page := filepath.Join(root, "docs/generated/json.md")
	var w bytes.Buffer
	w.WriteString(jsonIntro)
	for _, o := range jsonObjects {
		fmt.Fprintf(&w, "\n## %s\n\n| key | type | contents |\n|---|---|---|\n", o.title)
		for _, v := range o.of {
			jsonRows(t, &w, reflect.TypeOf(v))
		}
	}
	if *update {
		must(t, os.WriteFile(page, w.Bytes(), 0o600))
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, w.Bytes()) {
		t.Errorf("docs/generated/json.md is not what the types say: make claims (%v)", err)
	}
}

// jsonRows writes a row for each key of a struct in JSON: none may be missing, or be a number of bare nanoseconds. It returns the keys.
func jsonRows(t *testing.T, w *bytes.Buffer, of reflect.Type) (all []string) {
	t.Helper()
	filled := reflect.New(of)
	fill(filled.Elem())
	text, err := json.Marshal(filled.Interface())
	must(t, err)
	var keys map[string]json.RawMessage
	must(t, json.Unmarshal(text, &keys))
	all = slices.Collect(maps.Keys(keys))
	comments, names := comments(t, of)
	for f := range of.Fields() {
		if f.Anonymous && f.Tag == "" {
			for _, key := range jsonRows(t, w, f.Type) {
				delete(keys, key)
			}
			continue
		}
		key, optional := keyOf(f, keys)
		if key == "" {
			continue
		}
		delete(keys, key)
		row := "`" + key + "`"
		if optional {
			row += " *?*"
		}
		about := comments[f.Name]
		for name, is := range names {
			about = regexp.MustCompile(`(^|[^.\w])`+name+`\b`).ReplaceAllString(about, "${1}`"+is+"`")
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", row, typeInJSON(f.Type), about)
	}
	for key := range keys {
		t.Errorf("%v: the key %q has no row", of, key)
	}
	return all
}

// keyOf returns the key of a field, and whether it may be left out; "" if it is not printed.
func keyOf(f reflect.StructField, printed map[string]json.RawMessage) (key string, optional bool) {
	snake := strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(f.Name, "${1}_$2"))
	tag, options, _ := strings.Cut(cmp.Or(f.Tag.Get("ms"), f.Tag.Get("json")), ",")
	for _, key := range []string{tag, snake, snake + "_ms"} {
		if _, ok := printed[key]; ok && f.IsExported() {
			return key, strings.Contains(options, "omit")
		}
	}
	return "", false
}

// typeInJSON links the objects that are described on the page.
func typeInJSON(of reflect.Type) string {
	switch {
	case of == reflect.TypeFor[error]():
		return "string"
	case of.String() == "time.Time":
		return "time"
	case of.Kind() == reflect.Pointer:
		return typeInJSON(of.Elem()) + " or `null`"
	case of.Kind() == reflect.Slice:
		return "list: " + typeInJSON(of.Elem())
	case of.Kind() == reflect.Struct:
		for _, o := range jsonObjects {
			if reflect.TypeOf(o.of[0]) == of {
				return fmt.Sprintf("[%s](#%s)", strings.ToLower(o.title), strings.ReplaceAll(strings.ToLower(o.title), " ", "-"))
			}
		}
	case of.Kind() == reflect.Bool:
		return "boolean"
	case of.Kind() == reflect.String:
		return "string"
	}
	return "number"
}

// comments returns what the source says of each field of a struct, and the keys of those that a comment may name.
func comments(t *testing.T, of reflect.Type) (about, names map[string]string) {
	t.Helper()
	dir := filepath.Join(root, strings.TrimPrefix(of.PkgPath(), "github.com/mandate-dev/mandate/"))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	about, names = map[string]string{}, map[string]string{"nil": "null"}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != of.Name() {
				return true
			}
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range f.Names {
					about[name.Name] = strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
				}
			}
			return false
		})
	}
	for f := range of.Fields() {
		if key, _, _ := strings.Cut(cmp.Or(f.Tag.Get("ms"), f.Tag.Get("json")), ","); key != "" && key != "-" && strings.ToLower(f.Name) != f.Name {
			names[f.Name] = key
		}
	}
	return about, names
}

// fill sets every field, so that none is left out.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Interface: // an error
		v.Set(reflect.ValueOf(io.EOF))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Uint64:
		v.SetUint(1)
	}
}
