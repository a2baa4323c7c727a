package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wallClock are the functions and methods of package time (and one clock of the kernel)
// that drop the monotonic reading or compare with an instant that has none: what is
// computed with them moves when the wall clock is set.
var wallClock = []string{
	"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Until", "UTC", "Local", "Date", "Parse", "WithDeadline", "CLOCK_REALTIME",
}

// readsWallClock lists what a source file uses of those.
func readsWallClock(t *testing.T, name string, source any) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(wallClock, s.Sel.Name) {
			return true
		}
		if pkg, ok := s.X.(*ast.Ident); s.Sel.Name == "Until" && (!ok || pkg.Name != "time") {
			return true // supervise's count on the boot clock
		}
		found = append(found, s.Sel.Name)
		return true
	})
	return found
}

// What decides how long a command may run never looks at the wall clock: a step of it, by
// an operator or by NTP, must neither end a term nor stretch one. The wall clock can't be
// stepped in a test (no namespace has one of its own, and the machine is not the test's),
// so the sources are looked at. What happens on a step is tested with a clock that
// can be set: TestSuspendAndClockSteps (elector/internal/lease) and
// TestNowIsNotTheWallClock (supervise).
func TestNothingDecidesByTheWallClock(t *testing.T) {
	files, err := filepath.Glob("internal/supervise/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	spared := map[string]bool{"process_other.go": true} // no Unix: there is no better clock
	for _, name := range append(files, "run.go", "job.go", "serve.go", "signals.go") {
		if strings.HasSuffix(name, "_test.go") || spared[filepath.Base(name)] {
			continue
		}
		if found := readsWallClock(t, name, nil); len(found) > 0 {
			t.Errorf("%s uses %v: count on supervise.Now, time.Since or a timer", name, found)
		}
	}
	wrong := "package p\nvar a = time.Until(x)\nvar b = time.Now().UnixNano() > c\n"
	if found := readsWallClock(t, "wrong.go", wrong); len(found) != 2 {
		t.Errorf("the check finds %v of 2", found)
	}
}
