package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// all.json is what `go test -json ./...` printed of a module with a package of
// each kind: good, failing, panicking, without tests, and one that the compiler
// refuses and one that vet refuses. Only a stack was cut.
func TestPrintsWhatGoTestPrints(t *testing.T) {
	stream, err := os.ReadFile("testdata/all.json")
	if err != nil {
		t.Fatal(err)
	}
	var out, silence bytes.Buffer
	if _, err := follow(bytes.NewReader(stream), &out, &silence, time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# example.com/m/broken [example.com/m/broken.test]\nbroken/a_test.go:3:28: undefined: undefined\n",
		"\nFAIL\texample.com/m/broken [build failed]\n",
		"vet/a_test.go:3:40: fmt.Printf format %d has arg \"x\" of wrong type string\nFAIL\texample.com/m/vet [build failed]\n",
		"--- FAIL: TestBad (0.00s)\n    a_test.go:4: logged\n--- FAIL: TestBad/worse (0.00s)\n    a_test.go:4: wrong\nFAIL\nFAIL\texample.com/m/bad\t",
		"--- FAIL: TestX (0.00s)\n    a_test.go:3: before\npanic: ouch",
		"FAIL\texample.com/m/panics\t",
		"\nok  \texample.com/m/good\t",
		"\n?   \texample.com/m/none\t[no test files]\n",
		"\nok  \texample.com/m/slow\t",
	} {
		if !strings.Contains("\n"+out.String(), want) {
			t.Errorf("missing: %q", want)
		}
	}
	for _, not := range []string{"=== RUN", "--- PASS", "--- SKIP", "not shown", "quiet", "from a good test", "{\"", "PASS\n"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("go test does not print %q", not)
		}
	}
	if !strings.HasSuffix(out.String(), "\nFAIL\n") {
		t.Error("a failed run does not end with FAIL")
	}
	if t.Failed() {
		t.Log(out.String())
	}
	if silence.Len() > 0 {
		t.Errorf("a quick run prints %q", silence.String())
	}
}

func TestPrintsWhatRunsDuringASilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, tests := io.Pipe()
		go func() {
			event := func(action, pkg, test, output string) {
				fmt.Fprintf(tests, `{"Action":%q,"Package":%q,"Test":%q,"Output":%q}`+"\n", action, pkg, test, output)
			}
			time.Sleep(25 * time.Second) // the build: no line yet
			event("start", "m/a", "", "")
			event("run", "m/a", "TestFast", "")
			event("pass", "m/a", "TestFast", "")
			event("run", "m/a", "TestParallel", "")
			event("pause", "m/a", "TestParallel", "")
			event("run", "m/a", "TestSlow", "")
			event("run", "m/a", "TestSlow/one", "")
			event("start", "m/b", "", "")
			time.Sleep(50 * time.Second) // a line at 30 s and one at 60 s
			event("output", "m/b", "", "ok  \tm/b\t50s\n")
			event("pass", "m/b", "", "")
			event("pass", "m/a", "TestSlow/one", "")
			event("pass", "m/a", "TestSlow", "")
			event("cont", "m/a", "TestParallel", "")
			for i := range 4 {
				event("run", "m/a", fmt.Sprint("Test", i), "")
			}
			time.Sleep(40 * time.Second) // 30 s after the "ok"
			event("output", "m/a", "", "ok  \tm/a\t90s\n")
			event("pass", "m/a", "", "")
			_ = tests.Close()
		}()
		var out, silence bytes.Buffer
		if _, err := follow(in, &out, &silence, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		if want := "ok  \tm/b\t50s\nok  \tm/a\t90s\n"; out.String() != want {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
		want := "... 30s, packages done 0; running: m/a 5s (TestSlow/one 5s), m/b 5s\n" +
			"... 60s, packages done 0; running: m/a 35s (TestSlow/one 35s), m/b 35s\n" +
			"... 105s, packages done 1; running: m/a 80s (TestParallel 30s, Test0 30s, Test1 30s, 2 more)\n"
		if silence.String() != want {
			t.Errorf("got:\n%swant:\n%s", silence.String(), want)
		}
	})
}

func TestPrintsThatItBuilds(t *testing.T) {
	p := newProgress(time.Time{})
	if got, want := p.running(time.Time{}.Add(time.Minute)), "... 60s, packages done 0; go is building\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Nothing is lost of what is no event: a line of another program, a last one
// without an end, a very long one.
func TestPrintsOtherLines(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	in := "make: hello\n{not json\n{\"Action\":\"\"}\n" + long + "\nno end"
	var out bytes.Buffer
	if _, err := follow(strings.NewReader(in), &out, io.Discard, time.Hour); err != nil || out.String() != in {
		t.Errorf("%v, %d bytes of %d", err, out.Len(), len(in))
	}
}

func TestCrashOfTheRaceDetector(t *testing.T) {
	const crash = "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346 \"((exiting)) != (0)\" (0x0, 0x0) (tid=1)\n"
	event := func(action, pkg, test, output string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q,"Output":%q}`+"\n", action, pkg, test, output)
	}
	fails := func(pkg string, output ...string) string {
		s := event("run", pkg, "TestA", "")
		for _, line := range output {
			s += event("output", pkg, "TestA", line)
		}
		return s + event("output", pkg, "", "FAIL\t"+pkg+"\t1s\n") + event("fail", pkg, "", "")
	}
	for name, c := range map[string]struct {
		in   string
		want string
	}{
		"while a test runs":       {fails("m/a", crash), "m/a"},
		"in no test":              {event("output", "m/a", "", crash) + event("fail", "m/a", "", ""), "m/a"},
		"in two packages":         {fails("m/a", crash) + fails("m/b", crash), "m/a m/b"},
		"beside a good package":   {event("pass", "m/b", "", "") + fails("m/a", crash), "m/a"},
		"beside a failed package": {fails("m/a", crash) + fails("m/b", "wrong\n"), ""},
		"after a failed test":     {event("output", "m/a", "TestB", "--- FAIL: TestB (0.00s)\n") + fails("m/a", crash), ""},
		"after a race":            {fails("m/a", "WARNING: DATA RACE\n", crash), ""},
		"after a panic":           {fails("m/a", "panic: ouch\n", crash), ""},
		"in the words of a test":  {fails("m/a", "log: "+crash), ""},
		"none":                    {fails("m/a", "wrong\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			crashed, err := follow(strings.NewReader(c.in), io.Discard, io.Discard, time.Hour)
			if got := strings.Join(crashed, " "); err != nil || got != c.want {
				t.Errorf("to run again: %q (%v), want %q", got, err, c.want)
			}
		})
	}
}
