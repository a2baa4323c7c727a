package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// progress tracks which packages and tests are running, and holds back their output until it
// is known whether they fail.
type progress struct {
	began    time.Time
	done     int      // packages
	failed   int      // packages
	crashed  []string // those of them in which only the race detector crashed
	packages []*pkg
}

// pkg is a package whose tests have begun.
type pkg struct {
	name  string
	began time.Time
	out   strings.Builder // of the package itself: the "ok" line, a panic in TestMain
	tests []*test         // in the order in which they began
}

// test is a test or subtest.
type test struct {
	name    string
	began   time.Time
	waits   bool // paused by t.Parallel
	ended   bool
	passed  bool // or was skipped
	verdict string
	printed strings.Builder
}

func newProgress(now time.Time) *progress { return &progress{began: now} }

// line processes one line of go test's output, and returns what to print now.
func (p *progress) line(line []byte, now time.Time) string {
	e, ok := parse(line)
	switch {
	case !ok:
		return string(line)
	case e.Action == "build-output":
		return e.Output
	case e.Package == "": // a build-fail event: the package's own line follows
		return ""
	}
	k := p.pkg(e.Package, now)
	if e.Test != "" {
		k.test(e.Test, now).take(e, now)
		return ""
	}
	switch e.Action {
	case "output":
		k.out.WriteString(e.Output)
		return ""
	case "pass", "skip", "fail":
		p.done++
		if e.Action == "fail" {
			p.failed++
			if k.detectorCrashed() {
				p.crashed = append(p.crashed, k.name)
			}
		}
		p.packages = slices.DeleteFunc(p.packages, func(other *pkg) bool { return other == k })
		return k.report(e.Action == "fail")
	default:
		return ""
	}
}

// end returns the last line: "FAIL" if anything failed, as go test prints it.
func (p *progress) end() string {
	if p.failed > 0 {
		return "FAIL\n"
	}
	return ""
}

// crashedOnly returns the packages in which the race detector crashed, or none if any package
// failed for another reason: then the run has failed, and a second one would change nothing.
func (p *progress) crashedOnly() []string {
	if len(p.crashed) < p.failed {
		return nil
	}
	return p.crashed
}

// pkg finds or adds a running package. Few run at the same time.
func (p *progress) pkg(name string, now time.Time) *pkg {
	for _, k := range p.packages {
		if k.name == name {
			return k
		}
	}
	k := &pkg{name: name, began: now}
	p.packages = append(p.packages, k)
	return k
}

func (k *pkg) test(name string, now time.Time) *test {
	for _, t := range slices.Backward(k.tests) { // running tests are among the last
		if t.name == name {
			return t
		}
	}
	t := &test{name: name, began: now}
	k.tests = append(k.tests, t)
	return t
}

func (t *test) take(e event, now time.Time) {
	switch e.Action {
	case "output":
		switch {
		case strings.HasPrefix(e.Output, "=== "): // go test prints these only with -v
		case strings.HasPrefix(e.Output, "--- FAIL: "):
			t.verdict = e.Output
		default:
			t.printed.WriteString(e.Output)
		}
	case "pause":
		t.waits = true
	case "cont":
		t.waits, t.began = false, now
	case "pass", "skip":
		t.ended, t.passed = true, true
		t.printed.Reset()
	case "fail":
		t.ended = true
	}
}

// detectorCrashed reports whether the race detector failed a check of its own memory (a bug of its
// runtime, seen under many short goroutines), and nothing else went wrong until then: no test had
// failed, no race was found, nothing panicked. Such an end says nothing about the tests.
func (k *pkg) detectorCrashed() bool {
	text := k.out.String()
	for _, t := range k.tests {
		if t.verdict != "" {
			return false
		}
		text += t.printed.String()
	}
	crashed := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "ThreadSanitizer: CHECK failed: "):
			crashed = true
		case strings.HasPrefix(line, "WARNING: DATA RACE"), strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
			return false
		}
	}
	return crashed
}

// report returns what go test prints about a package: its last line, and before it, if it failed,
// all output that may show why. That includes the output of tests that did not end: they panicked,
// or were running when the time-out passed.
func (k *pkg) report(failed bool) string {
	var b strings.Builder
	if failed {
		for _, t := range k.tests {
			if !t.passed {
				b.WriteString(t.verdict + t.printed.String())
			}
		}
		b.WriteString(k.out.String())
		return b.String()
	}
	for line := range strings.Lines(k.out.String()) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// running returns the line that is printed after a silence.
func (p *progress) running(now time.Time) string {
	total := seconds(now.Sub(p.began))
	if len(p.packages) == 0 {
		return fmt.Sprintf("... %s, packages done %d; go is building\n", total, p.done)
	}
	parts := make([]string, len(p.packages))
	for i, k := range p.packages {
		parts[i] = k.name + " " + seconds(now.Sub(k.began))
		if tests := k.running(now); tests != "" {
			parts[i] += " (" + tests + ")"
		}
	}
	return fmt.Sprintf("... %s, packages done %d; running: %s\n", total, p.done, strings.Join(parts, ", "))
}

// most is how many tests of a package the line names.
const most = 3

// running returns the names of the tests that have been running for longest. It names a test's
// running subtests instead of the test, which waits for them.
func (k *pkg) running(now time.Time) string {
	parent := map[string]bool{}
	var tests []*test
	for _, t := range slices.Backward(k.tests) { // subtests begin after their parents
		if t.ended || t.waits {
			continue
		}
		if !parent[t.name] {
			tests = append(tests, t)
		}
		for i, c := range t.name {
			if c == '/' {
				parent[t.name[:i]] = true
			}
		}
	}
	slices.Reverse(tests)
	slices.SortStableFunc(tests, func(a, b *test) int { return a.began.Compare(b.began) })
	var parts []string
	for _, t := range tests[:min(most, len(tests))] {
		parts = append(parts, t.name+" "+seconds(now.Sub(t.began)))
	}
	if more := len(tests) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0fs", d.Seconds()) }
