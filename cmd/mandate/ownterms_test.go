package main

import (
	"os"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/supervisor"
)

// The pipe of the terms is named in this process's own environment for a moment only. It stayed there when the
// elector could not be made, and whatever was started then took a file that was none of its own for the pipe, and
// had no supervisor.
func TestNoPipeStaysInTheEnvironment(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--election", "e", "--lease", "1ms", "--redis", "redis://127.0.0.1:1", "--", "true"},
		{"run", "--redis", "redis://127.0.0.1:1", "--", "true"},
	} {
		var out, stderr strings.Builder
		if code := execute(t.Context(), args, &out, &stderr); code != exitUsage {
			t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
		}
		if value, set := os.LookupEnv(supervisor.Variable); set {
			t.Errorf("%q: %s is %q", args, supervisor.Variable, value)
		}
	}
}
