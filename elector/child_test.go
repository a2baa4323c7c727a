package elector_test

import (
	"context"
	"fmt"
	"net"
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

// A node that accepts connections and never answers must neither keep the panic out of
// the history of the others nor hold up the end of the process.
func TestPanicIsRecordedBesideAHungNode(t *testing.T) {
	a, b := miniredis.RunT(t), miniredis.RunT(t)
	for _, m := range []*miniredis.Miniredis{a, b} { // no first start, which waits for all nodes
		if err := m.Set("mandate:{orders}:fence", "7"); err != nil {
			t.Fatal(err)
		}
	}
	hung, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts; nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=redis://"+a.Addr()+",redis://"+b.Addr()+",redis://"+hung.Addr().String())
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	wantPanicRecorded(t, a)
	wantPanicRecorded(t, b)
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
