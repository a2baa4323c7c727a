package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// kubernetesTypes has the fields of the types that our manifests use, read from those of k8s.io/api v0.37.2 and of the
// Prometheus operator v0.95.2 by reflection: a line "Type: field=Type ...".
const kubernetesTypes = "testdata/kubernetes-types.txt"

// The manifests have no field that Kubernetes would refuse, or ignore, and no value of another type.
func TestManifestsAreWhatKubernetesTakes(t *testing.T) {
	text, err := os.ReadFile(kubernetesTypes)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, fields, _ := strings.Cut(strings.TrimSpace(line), ": ")
		types[name] = map[string]string{}
		for f := range strings.FieldsSeq(fields) {
			field, of, _ := strings.Cut(f, "=")
			types[name][field] = of
		}
	}
	for _, file := range []string{"reports.yaml", "podmonitor.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "docs/kubernetes", file))
		if err != nil {
			t.Fatal(err)
		}
		for docs := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var doc map[string]any
			if err := docs.Decode(&doc); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(file, err)
			}
			kind := fmt.Sprint(doc["kind"])
			for _, problem := range unlike(types, kind, kind, doc) {
				t.Errorf("%s: %s", file, problem)
			}
		}
	}
	if got := unlike(types, "Probe", "Probe", map[string]any{"periodSecond": 2, "failureThreshold": "6"}); len(got) != 2 {
		t.Errorf("a misspelt field and a value of another type: %q", got)
	}
}

// unlike returns what of a value does not have the type.
func unlike(types map[string]map[string]string, is, path string, value any) (problems []string) {
	if of, list := strings.CutPrefix(is, "[]"); list {
		all, ok := value.([]any)
		for i, v := range all {
			problems = append(problems, unlike(types, of, fmt.Sprintf("%s[%d]", path, i), v)...)
		}
		return append(problems, wrong(ok, path, is, value)...)
	}
	fields, object := types[is]
	of, names := strings.CutPrefix(is, "{}")
	if object || names {
		all, ok := value.(map[string]any)
		for name, v := range all {
			what, known := fields[name]
			switch {
			case names:
				what = of
			case !known:
				problems = append(problems, path+" has no field "+name)
				continue
			}
			problems = append(problems, unlike(types, what, path+"."+name, v)...)
		}
		return append(problems, wrong(ok, path, is, value)...)
	}
	ok := is == "any"
	switch value.(type) {
	case string:
		ok = ok || is == "string"
	case bool:
		ok = ok || is == "bool"
	case int, float64:
		ok = ok || is == "number"
	}
	return wrong(ok, path, is, value)
}

func wrong(ok bool, path, is string, value any) []string {
	if ok {
		return nil
	}
	return []string{fmt.Sprintf("%s is a %s, not %v", path, is, value)}
}
