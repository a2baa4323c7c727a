package elector_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
)

// childEnv makes the test binary play another part; see TestMain.
const childEnv = "MANDATE_TEST_CHILD"

// child leads on the Redis nodes that childEnv names, and its work panics.
func child() {
	q, err := elector.Open(strings.Split(os.Getenv(childEnv), ",")...)
	if err != nil {
		panic(err)
	}
	e, err := elector.New(q, elector.Config{Election: "orders", ID: "child", Lease: shortLease})
	if err != nil {
		panic(err)
	}
	err = e.Run(context.Background(), func(context.Context, *elector.Term) error {
		fmt.Println("leading")
		var m map[string]int
		m["x"] = 1 //nolint:govet,staticcheck // a panic of the runtime, on purpose
		return nil
	})
	fmt.Println("Run returned", err)
}

func TestPanicReleasesAndEndsTheProcess(t *testing.T) {
	m := miniredis.RunT(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=redis://"+m.Addr())
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the process went on: %s", out)
	}
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit code %d, a panic gives 2", code)
	}
	for _, want := range []string{"leading", "assignment to entry in nil map", "goroutine ", "work panicked"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if m.Exists(lockKey) {
		t.Error("the lock was kept")
	}
	if d := time.Since(began); d > shortLease/2 {
		t.Errorf("took %v", d)
	}
	wantPanicRecorded(t, m)
}

func wantPanicRecorded(t *testing.T, m *miniredis.Miniredis) {
	t.Helper()
	entries, err := m.Stream("mandate:{orders}:history")
	if err != nil || len(entries) != 2 {
		t.Fatalf("history: %v, %v: its reader takes the panic for a kill", entries, err)
	}
	last := entries[1].Values
	if ev, err := eventIn(last[len(last)-1]); err != nil || ev.Kind != elector.EventReleased || ev.Reason != elector.ReasonPanicked {
		t.Errorf("the history ends with %+v, %v", ev, err)
	}
}
