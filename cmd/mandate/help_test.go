package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// Each variable is read: a wrong value is noticed, and the error names what is wrong.
func TestEnvironmentVariablesAreRead(t *testing.T) {
	wrong := map[string]struct{ redis, value, says string }{
		"redis":      {"", "foo", "MANDATE_REDIS, URL 1: not a Redis URL"},
		"prefix":     {"", "a b", `MANDATE_PREFIX is "a b"`},
		"log-format": {"", "xml", `MANDATE_LOG_FORMAT is "xml"`},
		"log-level":  {"", "loud", `MANDATE_LOG_LEVEL is "loud"`},
	}
	(&app{}).command().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		t.Run(f.Name, func(t *testing.T) {
			w, there := wrong[f.Name]
			if !there {
				t.Fatal("no wrong value is known for it")
			}
			if w.redis != "" {
				t.Setenv("MANDATE_REDIS", w.redis)
			}
			t.Setenv("MANDATE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), w.value)
			var out, stderr strings.Builder
			if code := execute(t.Context(), []string{"ls"}, &out, &stderr); code != 2 || !strings.Contains(stderr.String(), w.says) {
				t.Errorf("code %d: %s%s, want %q", code, out.String(), stderr.String(), w.says)
			}
		})
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
