package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script that `make test` runs must fail when a test does, also behind the
// pipe.
func TestGotestFailsWhenATestDoes(t *testing.T) {
	script, err := filepath.Abs("../../../.ci/gotest")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal(err) // make test itself is run by it
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.25\n")
	write("a_test.go", "package m\n\nimport \"testing\"\n\nfunc TestGood(*testing.T) {}\n\nfunc TestBad(t *testing.T) { t.Error(\"wrong\") }\n")
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"-run=Good", 0, "ok  \texample.com/m\t"},
		{"-run=Bad", 1, "--- FAIL: TestBad (0.00s)\n    a_test.go:7: wrong\nFAIL\nFAIL\texample.com/m\t"},
		{"-v -run=Bad", 1, "=== RUN   TestBad"},
	} {
		cmd := exec.Command("bash", append([]string{script, "-count=1"}, append(strings.Fields(c.flags), "./...")...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", c.flags, code, c.code, c.want, out)
		}
	}
}

// A crash of the race detector is no verdict: the package runs once more, and a second crash fails.
func TestGotestRunsAgainAfterACrashOfTheRaceDetector(t *testing.T) {
	script, err := filepath.Abs("../../../.ci/gotest")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		crashes string // in how many runs
		code    int
		want    string
	}{
		"once":  {"x", 0, "ok  \texample.com/m\t"},
		"twice": {"xx", 1, "FAIL\texample.com/m\t"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module example.com/m\n\ngo 1.25\n",
				"left":   c.crashes,
				"a_test.go": `package m

import (
	"os"
	"testing"
)

func TestA(*testing.T) {
	if left, _ := os.ReadFile("left"); len(left) > 0 {
		os.WriteFile("left", left[1:], 0o600)
		os.Stderr.WriteString("ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346\n")
		os.Exit(66)
	}
}
`,
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", script, "-count=1", "-p", "1", "./...")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) ||
				strings.Count(string(out), "THE RACE DETECTOR CRASHED") != 1 {
				t.Errorf("exit code %d, want %d with %q, and one new run:\n%s", code, c.code, c.want, out)
			}
		})
	}
}
