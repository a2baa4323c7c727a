//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// dead PID... waits for the end of processes. With -since-stop D it must come at
// most D after Redis, or a candidate, was stopped. A zombie is dead; that mandate
// leaves none is asked with `reaped PID...`.
func cmdDead(ts *testscript.TestScript, neg bool, args []string) {
	var limit time.Time
	if args[0] == "-since-stop" {
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		limit = stageOf(ts).stoppedAt.Add(d)
		args = args[2:]
	}
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		ts.Check(err)
		if neg {
			if err := syscall.Kill(pid, 0); err != nil {
				ts.Fatalf("process %d is dead: %v", pid, err)
			}
			continue
		}
		var at time.Time
		ts.Check(poll(func() error {
			at = time.Now()
			if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
				return fmt.Errorf("process %d lives", pid)
			}
			return nil
		}))
		if !limit.IsZero() && at.After(limit) {
			ts.Fatalf("process %d lived %v beyond the lease", pid, at.Sub(limit))
		}
	}
}

// deadfile FILE...: the processes whose numbers stand there are dead, now.
func cmdDeadFile(ts *testscript.TestScript, _ bool, args []string) {
	for _, arg := range args {
		pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(arg)))
		ts.Check(err)
		if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
			ts.Fatalf("process %d lives", pid)
		}
	}
}

// reaped PID...: no trace of a process is left, not even a zombie.
func cmdReaped(ts *testscript.TestScript, _ bool, args []string) {
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		ts.Check(err)
		ts.Check(poll(func() error {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d is still there, a zombie: %v", pid, isZombie(pid))
			}
			return nil
		}))
	}
}

func isZombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}

// The guard kills the group when its pipe closes, and when nobody speaks to it
// any more; and it never kills group 0 or 1.
func TestGuardKillsOnSilence(t *testing.T) {
	cmd := exec.CommandContext(context.Background(), "sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fmt.Fprint(w, "garbage\n")
	w.Write(order{group: cmd.Process.Pid, left: 50 * time.Millisecond, said: time.Now()}.line())
	guard(r) // returns after the silence, the pipe still open
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the command ended with %v, want killed", err)
	}
	for _, group := range []int{0, 1} {
		guard(bytes.NewReader(order{group: group, left: time.Second, said: time.Now()}.line())) // would kill this test
	}
}

// A command that the guard has killed has not ended by itself, and one that ends or is
// killed by others has.
func TestKilledByGuard(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // built with -race the guard would take a second to end
	start := func(until time.Duration, argv ...string) *child {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			t.Fatal(err)
		}
		c, err := startChild(path, argv, nil, time.Now().Add(until))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.killGroup(); <-c.exited; c.dismissGuard() })
		return c
	}
	if c := start(50*time.Millisecond, "sleep", "1000"); true {
		<-c.exited
		if !c.killedByGuard() {
			t.Error("killed by the guard: not seen")
		}
	}
	if c := start(time.Hour, "sleep", "1000"); true {
		c.killGroup()
		<-c.exited
		if c.killedByGuard() {
			t.Error("killed by somebody else: taken for the guard's")
		}
	}
	if c := start(time.Hour, "true"); true {
		<-c.exited
		if c.killedByGuard() {
			t.Error("ended by itself: taken for the guard's")
		}
	}
}

// The guard hears of us often enough for whatever until may give: after a step of the
// wall clock that is patience, with any grace.
func TestGuardIsToldInTime(t *testing.T) {
	for _, lease := range []time.Duration{50 * time.Millisecond, 10 * time.Second, time.Hour} {
		for _, grace := range []time.Duration{0, lease / 100, lease / 3} {
			j := &job{lease: lease, grace: grace, kill: killTime(lease)}
			if j.tell() > j.patience()/2 {
				t.Errorf("lease %v, grace %v: told every %v that it has %v", lease, grace, j.tell(), j.patience())
			}
		}
	}
}

// What is heard late is over the sooner: the way from mandate to the guard is part
// of the time that the command has left. A clock that is set back gives it no more.
func TestGuardCountsFromWhatWasSaid(t *testing.T) {
	said := time.Unix(1000, 0)
	o, ok := readOrder(string(order{group: 7, left: time.Second, said: said}.line()))
	if !ok || o.group != 7 {
		t.Fatalf("%+v, %v", o, ok)
	}
	for after, want := range map[time.Duration]time.Duration{
		0: time.Second, 400 * time.Millisecond: 600 * time.Millisecond, time.Minute: 0, -time.Minute: time.Second,
	} {
		if got := o.remaining(said.Add(after)); got != want {
			t.Errorf("heard after %v: %v left, want %v", after, got, want)
		}
	}
}
