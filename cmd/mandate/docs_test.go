package main

import (
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
		t.Fatalf("only %d documents found", len(files))
	}
	seen := 0
	for file, text := range files {
		for _, line := range invocations(text) {
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
	makefile := textOf(t, "Makefile")
	named := regexp.MustCompile("(?m)(?:`|^ *\\$ |^)make ([a-z]+)")
	for file, text := range documents(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no target of %q", file, m[0])
			}
		}
	}
	screen := strings.Join(strings.SplitAfter(textOf(t, "README.md"), "\n")[:40], "")
	for _, target := range []string{"demo", "test"} {
		if !strings.Contains(screen, "\n$ make "+target+" ") {
			t.Errorf("the first 40 lines of README.md do not show make %s", target)
		}
	}
}

// Links between the documents, and within one, lead somewhere.
func TestDocumentLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]+))?\)`)
	for file, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
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
	text := textOf(t, "docs/systemd/reports.service")
	unit, _, _ := strings.Cut(text, "[Service]")
	if !strings.Contains(unit, "\nStartLimitIntervalSec=0\n") { // another section's would be ignored
		t.Error("[Unit] does not turn the start limit off")
	}
	servertest.NeedProgram(t, "apt-get install systemd", "systemd-analyze")
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// It reports a program that is not there, and so this test stands in for mandate.
	self, err := os.Executable()
	must(t, err)
	here := strings.ReplaceAll(text, "/usr/local/bin/mandate ", self+" ")
	if here == text {
		t.Error("it does not start /usr/local/bin/mandate")
	}
	verified := filepath.Join(t.TempDir(), "reports.service")
	must(t, os.WriteFile(verified, []byte(here), 0o600))
	// It exits with 0 after what it only ignores.
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", verified).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// textOf is the text of a file of this repository.
func textOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	must(t, err)
	return string(text)
}

// documents are the texts of what users read, or copy, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md", "docs/*.yml", "docs/kubernetes/*/*.yaml", "docs/systemd/*.service"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		must(t, err)
		for _, file := range found {
			all[file] = textOf(t, strings.TrimPrefix(file, root))
		}
	}
	return all
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
	top := rootCommand(&connection{terminal: &terminal{stdout: io.Discard, stderr: io.Discard}})
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
	cmd.InheritedFlags() // they count as its own from here on
	if strings.HasPrefix(word, "--") {
		return cmd.Flags().Lookup(name)
	}
	return cmd.Flags().ShorthandLookup(name)
}

// Each kustomization lists what is there, and the base leaves out what only the Prometheus operator knows.
func TestKustomizationsListWhatIsThere(t *testing.T) {
	for dir, want := range map[string]string{"docs/kubernetes/reports": "[reports.yaml]", "docs/kubernetes/podmonitor": "[../reports podmonitor.yaml]"} {
		var k struct{ Resources []string }
		if err := yaml.Unmarshal([]byte(textOf(t, dir+"/kustomization.yaml")), &k); err != nil || fmt.Sprint(k.Resources) != want {
			t.Errorf("%s: %v, %v", dir, k.Resources, err)
		}
		for _, r := range k.Resources {
			if _, err := os.Stat(filepath.Join(root, dir, r)); err != nil {
				t.Error(err)
			}
		}
	}
}
