package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const root = "../.."

// The commands in the documents, the unit and the manifest exist.
func TestDocumentsNameExistingCommands(t *testing.T) {
	files := documents(t)
	if len(files) < 6 {
		t.Fatalf("only %d documents found: %q", len(files), files)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range invocations(string(text)) {
			seen++
			if problem := unknownIn(line); problem != "" {
				t.Errorf("%s: %q: %s", file, line, problem)
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d invocations were found in %d documents: is the search still right?", seen, len(files))
	}
}

// So do the targets of make; and the two that need nothing but Go are on the README's first screen.
func TestDocumentsNameExistingTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("(?m)(?:`|^ *\\$ |^)make ([a-z]+)")
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			if !bytes.Contains(makefile, []byte("\n"+string(m[1])+":")) {
				t.Errorf("%s: there is no target of %q", file, m[0])
			}
		}
		if filepath.Base(file) != "README.md" || filepath.Dir(file) != root {
			continue
		}
		screen := strings.Join(strings.SplitAfter(string(text), "\n")[:30], "")
		for _, target := range []string{"demo", "test"} {
			if !strings.Contains(screen, "\n$ make "+target+" ") {
				t.Errorf("the first 30 lines of %s do not show make %s", file, target)
			}
		}
	}
}

// Links between the documents, and within one, lead somewhere.
func TestDocumentLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]+))?\)`)
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if m[2] == "" {
				continue
			}
			if text, err := os.ReadFile(target); err != nil || !hasHeading(string(text), m[2]) {
				t.Errorf("%s: %s has no heading %q (%v)", file, m[1], m[2], err)
			}
		}
	}
}

func hasHeading(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if head := strings.TrimLeft(line, "#"); head != line {
			slug := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(head)), "")
			if strings.ReplaceAll(slug, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

// systemd gives up after five quick failures unless that is switched off; and what it can check
// itself, it checks.
func TestSystemdUnit(t *testing.T) {
	file := filepath.Join(root, "docs/systemd/reports.service")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unit, _, _ := strings.Cut(string(text), "[Service]")
	if !strings.Contains(unit, "\nStartLimitIntervalSec=0\n") { // another section's would be ignored
		t.Error("[Unit] does not turn the start limit off")
	}
	servertest.NeedProgram(t, "apt-get install systemd", "systemd-analyze")
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// It reports a program that is not there, and so this test stands in for mandate.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.ReplaceAll(string(text), "/usr/local/bin/mandate ", self+" ")
	if here == string(text) {
		t.Error("it does not start /usr/local/bin/mandate")
	}
	verified := filepath.Join(t.TempDir(), "reports.service")
	if err := os.WriteFile(verified, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	// It exits with 0 after what it only ignores.
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", verified).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md", "docs/*.yml", "docs/kubernetes/*.yaml", "docs/systemd/*.service"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

var (
	// In the text `mandate ...`; in a listing or a unit: at a prompt, or after ExecStart=; in a manifest: a list.
	inText     = regexp.MustCompile("`(mandate [^`]+)`")
	inListing  = regexp.MustCompile(`(?m)^ *(?:\$ (?:\w+=\S+ )*|ExecStart=\S*/)(mandate [^\n|;>#]+)`)
	inManifest = regexp.MustCompile(`(?m)^ *- (mandate\n(?: *[-#] .*\n)+)`)
)

func invocations(text string) []string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	var lines []string
	for _, re := range []*regexp.Regexp{inText, inListing} {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			lines = append(lines, m[1])
		}
	}
	for _, m := range inManifest.FindAllStringSubmatch(text, -1) {
		var words []string
		for line := range strings.Lines(m[1]) {
			arg, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), "#")
			words = append(words, arg)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// unknownIn returns what of an invocation doesn't exist: its command, or a flag
// of it that stands before "--".
func unknownIn(line string) string {
	words := strings.Fields(line)[1:]
	for i, w := range words {
		if w == "--" {
			words = words[:i]
			break
		}
	}
	top := (&app{stdout: io.Discard, stderr: io.Discard}).command()
	cmd, _, err := top.Find(words)
	switch {
	case err != nil:
		return err.Error()
	case cmd == top:
		return "there is no command " + strings.Join(words, " ")
	}
	for _, w := range words {
		if name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "="); strings.HasPrefix(w, "-") && flagOf(cmd, w, name) == nil {
			return w + " is no flag of " + cmd.CommandPath()
		}
	}
	return ""
}

func flagOf(cmd *cobra.Command, word, name string) *pflag.Flag {
	cmd.InitDefaultHelpFlag()
	if !strings.HasPrefix(word, "--") {
		return cmd.Flags().ShorthandLookup(name)
	}
	if f := cmd.Flag(name); f != nil {
		return f
	}
	return cmd.InheritedFlags().Lookup(name)
}

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
	for _, file := range []string{"reports.yaml", "podmonitor/podmonitor.yaml"} {
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

// Each kustomization lists what is there, and the base leaves out what only the Prometheus operator knows.
func TestKustomizationsListWhatIsThere(t *testing.T) {
	for dir, want := range map[string]string{"docs/kubernetes": "[reports.yaml]", "docs/kubernetes/podmonitor": "[.. podmonitor.yaml]"} {
		text, err := os.ReadFile(filepath.Join(root, dir, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var k struct{ Resources []string }
		if err := yaml.Unmarshal(text, &k); err != nil || fmt.Sprint(k.Resources) != want {
			t.Errorf("%s: %v, %v", dir, k.Resources, err)
		}
		for _, r := range k.Resources {
			if _, err := os.Stat(filepath.Join(root, dir, r)); err != nil {
				t.Error(err)
			}
		}
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
