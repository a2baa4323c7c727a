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
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/shard"
)

var update = flag.Bool("update", false, "write docs/schema.json and docs/generated")

const schemaIntro = "Written by make claims from the Go types and their comments. `$defs` in lower case are what the commands print, one value, watch one in each line. " +
	"A key that ends in _ms is in milliseconds, and a list is never null. Programs must ignore keys that they do not know. Texts (detail, error, found, advice) are for people, and may change."

// node is a part of a JSON schema.
type node = map[string]any

func ref(name string) node { return node{"$ref": "#/$defs/" + name} }

func list(of node) node { return node{"type": "array", "items": of} }

// jsonObjects are the objects, and their types. The keys of an object may come from two types.
var jsonObjects = map[string][]any{
	"Election": {elector.Status{}, reportMore{}}, "Leader": {elector.Leader{}}, "Node": {elector.NodeStatus{}},
	"Candidate": {elector.CandidateStatus{}}, "VotingNode": {elector.VotingNode{}},
	"History": {history{}}, "Term": {elector.TermRecord{}}, "Pause": {elector.PauseRecord{}}, "Event": {elector.Event{}},
	"Group": {shard.Status{}, groupMore{}}, "Member": {shard.MemberStatus{}}, "MissingMember": {shard.MissingMember{}}, "UnownedShard": {shard.Vacancy{}},
	"Job": {tickJSON{}}, "Run": {fence.Ran{}}, "Gap": {fence.Skip{}},
	"Finding": {doctor.Finding{}}, "Handover": {handoverJSON{}}, "Pausing": {pauseJSON{}},
}

// groupMore are the keys that the MarshalJSON of a shard.Status adds.
type groupMore struct {
	LeaseMs  int64    `json:"lease_ms"` // of each shard
	Problems []string `json:"problems"` // the errors of single nodes; all other keys come from the remaining nodes
}

// printed are what the commands print with --json.
var printed = map[string]node{
	"status": ref("Election"), "ls": list(ref("Election")), "wait": ref("Leader"), "history": ref("History"), "watch": ref("Event"),
	"shards": ref("Group"), "ticks": list(ref("Job")), "doctor": list(ref("Finding")),
	"resign": ref("Handover"), "transfer": ref("Handover"), "pause": ref("Pausing"), "resume": ref("Pausing"),
}

// schemaOfJSON is docs/schema.json.
func schemaOfJSON(t *testing.T) node {
	t.Helper()
	defs := node{}
	for name, of := range jsonObjects {
		properties, required := node{}, []string{}
		for _, v := range of {
			required = append(required, describe(t, reflect.TypeOf(v), properties)...)
		}
		defs[name] = node{"type": "object", "properties": properties, "required": required}
	}
	var anyOf []node
	for _, name := range slices.Sorted(maps.Keys(printed)) {
		defs[name], anyOf = printed[name], append(anyOf, ref(name))
	}
	return node{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "What mandate prints with --json", "$comment": schemaIntro,
		"anyOf": anyOf, "$defs": defs,
	}
}

// describe adds the keys of a type, and returns those that are never left out.
func describe(t *testing.T, of reflect.Type, properties node) (required []string) {
	t.Helper()
	comments, names := comments(t, of)
	for f := range of.Fields() {
		if f.Anonymous && f.Tag == "" {
			required = append(required, describe(t, f.Type, properties)...)
			continue
		}
		key, options, _ := strings.Cut(cmp.Or(f.Tag.Get("ms"), f.Tag.Get("json")), ",")
		if key == "-" || !f.IsExported() {
			continue
		}
		if key == "" || f.Type == reflect.TypeFor[time.Duration]() && !strings.HasSuffix(key, "_ms") {
			t.Errorf("%v.%s has no key, or is a number of bare nanoseconds", of, f.Name)
		}
		property := schemaOfType(f.Type)
		if about := comments[f.Name]; about != "" {
			for name, is := range names {
				about = regexp.MustCompile(`(^|[^.\w])`+name+`\b`).ReplaceAllString(about, "${1}"+is)
			}
			property["description"] = about
		}
		properties[key] = property
		if !strings.Contains(options, "omit") {
			required = append(required, key)
		}
	}
	return required
}

func schemaOfType(of reflect.Type) node {
	if of == reflect.TypeFor[time.Time]() {
		return node{"type": "string", "format": "date-time"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return node{"anyOf": []node{schemaOfType(of.Elem()), {"type": "null"}}}
	case reflect.Slice:
		return list(schemaOfType(of.Elem()))
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.String:
		return node{"type": "string"}
	case reflect.Struct:
		for name, types := range jsonObjects {
			if reflect.TypeOf(types[0]) == of {
				return ref(name)
			}
		}
	}
	return node{"type": "number"}
}

// Who changes a type that is printed, or its comments, writes the schema anew.
func TestSchema(t *testing.T) {
	page := filepath.Join(root, "docs/schema.json")
	want, err := json.MarshalIndent(schemaOfJSON(t), "", " ")
	must(t, err)
	want = append(want, '\n')
	if *update {
		must(t, os.WriteFile(page, want, 0o600))
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/schema.json is not what the types say: make claims (%v)", err)
	}
}

// What the commands print is as the schema says.
func TestSchemaAllowsWhatIsPrinted(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	q := openQuorum(t, url)
	runCandidate(t, q, elector.Config{Election: "e", ID: "a"})
	runCandidate(t, q, elector.Config{Election: "e", ID: "b"})
	joinGroup(t, url, "m", nil)
	must(t, poll(func() error {
		if code, out, _ := run(t, url, "wait", "e", "--timeout", "1s", "--json"); code != 0 || !strings.Contains(out, "token") {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	}))
	for _, line := range []string{
		"resign e --force", "transfer e --to a", "pause e --reason r", "status e", "ls", "resume e", "history e", "shards invoices", "doctor e", "resign nosuch",
	} {
		if _, out, errs := run(t, url, append(strings.Fields(line), "--json")...); out == "" {
			t.Errorf("%s printed nothing: %s", line, errs)
		}
	}
}

// conforms fails a test where a command has printed what docs/schema.json does not allow, or has a key that it does
// not name. It knows what of JSON Schema our file uses.
func conforms(t *testing.T, command, out string) {
	t.Helper()
	var v any
	if out == "" {
		return
	}
	must(t, json.Unmarshal([]byte(out), &v))
	var file node
	text, err := os.ReadFile(filepath.Join(root, "docs/schema.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &file))
	defs := file["$defs"].(node)
	var violation func(schema node, v any, at string) string
	violation = func(schema node, v any, at string) (found string) {
		if to, ok := schema["$ref"].(string); ok {
			return violation(defs[filepath.Base(to)].(node), v, at)
		}
		if either, ok := schema["anyOf"].([]any); ok {
			for _, s := range either {
				if found = violation(s.(node), v, at); found == "" {
					break
				}
			}
			return found
		}
		kind := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number", reflect.Slice: "array", reflect.Map: "object", reflect.Invalid: "null"}
		if got := kind[reflect.ValueOf(v).Kind()]; got != schema["type"] {
			return fmt.Sprintf("%s is %s, not %s", at, got, schema["type"])
		}
		switch v := v.(type) {
		case []any:
			for i := range v {
				found = cmp.Or(found, violation(schema["items"].(node), v[i], fmt.Sprint(at, "[", i, "]")))
			}
		case node:
			for _, key := range schema["required"].([]any) {
				if _, ok := v[key.(string)]; !ok {
					return fmt.Sprintf("%s lacks %s", at, key)
				}
			}
			for key := range v {
				property, ok := schema["properties"].(node)[key].(node)
				if !ok {
					return at + "." + key + " is not in the schema"
				}
				found = cmp.Or(found, violation(property, v[key], at+"."+key))
			}
		}
		return found
	}
	if found := violation(ref(command), v, command); found != "" {
		t.Errorf("docs/schema.json does not allow it: %s", found)
	}
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
