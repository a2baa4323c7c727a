package main

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// Containers are configured by their environment.
func TestGlobalFlagsHaveEnvironmentVariables(t *testing.T) {
	(&app{}).command().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if name := "env MANDATE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")); !strings.Contains(f.Usage, name) {
			t.Errorf("--%s: %q does not name it: %s", f.Name, name, f.Usage)
		}
	})
}

// A line that the terminal breaks is hard to read in a table of flags.
func TestHelpFitsTheScreen(t *testing.T) {
	commands := []string{""}
	for _, cmd := range (&app{}).command().Commands() {
		commands = append(commands, cmd.Name())
	}
	if len(commands) < 16 {
		t.Fatalf("only %d commands: %q", len(commands), commands)
	}
	for _, name := range commands {
		var out, stderr strings.Builder
		if code := execute(t.Context(), append(strings.Fields(name), "--help"), &out, &stderr); code != 0 || out.Len() == 0 {
			t.Errorf("%s: code %d: %s", name, code, stderr.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("mandate %s --help: %d columns: %s", name, n, line)
			}
		}
	}
}

// A flag that is off has no default worth a word.
func TestHelpShowsNoEmptyDefaults(t *testing.T) {
	root := (&app{stdout: io.Discard, stderr: io.Discard}).command()
	for _, cmd := range root.Commands() {
		if usage := cmd.UsageString(); strings.Contains(usage, "(default )") {
			t.Errorf("%s:\n%s", cmd.CommandPath(), usage)
		}
	}
}
