package main

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// As process 1 of a container mandate inherits what a command leaves behind, and
// must not collect zombies. A subreaper is in the same position.
func TestOrphansAreReaped(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err) // any Linux that Go runs on can do this, without rights
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	for range 10 {
		c, err := startChild("/bin/sh", []string{"sh", "-c", "sleep 1000 & sleep 1000 & exit 3"}, nil, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		<-c.exited
		c.killGroup()
		if !c.awaitGone(time.After(patience), nil) {
			t.Fatal("the group is still there after SIGKILL")
		}
		c.dismissGuard()
		if c.state.ExitCode() != 3 {
			t.Errorf("the command ended with %v, want 3", c.state)
		}
		if err := syscall.Kill(-c.pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("something of the group is left, perhaps a zombie: %v", err)
		}
	}
}

// A group whose only process is a zombie that nobody waits for is over.
func TestZombiesDontHoldTheLock(t *testing.T) {
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 0"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = p.Wait() }()
	deadline := time.Now().Add(patience)
	for !allZombies(p.Pid) {
		if time.Now().After(deadline) {
			t.Fatal("the zombie counts as alive")
		}
		time.Sleep(time.Millisecond)
	}
	if allZombies(os.Getpid()) || allZombies(1<<30) {
		t.Error("a group of the living, or one that doesn't exist, counts as zombies")
	}
}

// Killed between starting the command and telling the guard, we leave nothing
// behind: the starter ends instead of becoming the command.
func TestStarterDiesWithoutARelease(t *testing.T) {
	s, err := newStarter("/bin/sh", []string{"sh", "-c", "exit 0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{exited: make(chan struct{})}
	if err := c.run(s); err != nil {
		t.Fatal(err)
	}
	s.close() // as the kernel does it when we die
	select {
	case <-c.exited:
		if c.state.ExitCode() != exitTrouble {
			t.Errorf("the starter ended with %v", c.state)
		}
	case <-time.After(patience):
		t.Fatal("the starter still waits")
	}
}
