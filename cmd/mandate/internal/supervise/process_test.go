//go:build unix

package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that ends well on SIGTERM gets no SIGKILL, and each of its processes one
// SIGTERM only: a trap runs once.
func TestPoliteCommandIsSignaledOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traps")
	p, pids := start(t, 2, `
		trap 'echo outer >>`+file+`; kill $child; exit 5' TERM
		sh -c 'trap "echo inner >>`+file+`; exit 0" TERM; echo $$ >>$PIDS; i=0; while [ $((i+=1)) -lt 6000 ]; do sleep 0.01; done' & child=$!
		echo $$ >>$PIDS
		i=0; while [ $((i+=1)) -lt 6000 ]; do sleep 0.01; done`)
	p.Terminate()
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("it has not ended")
	}
	if ws := p.Status(); ws.ExitStatus() != 5 {
		t.Errorf("the command ended with %v, want 5", ws)
	}
	noneLeft(t, pids)
	if text, _ := os.ReadFile(file); strings.Count(string(text), "outer") != 1 {
		t.Errorf("its trap ran other than once: %q", text)
	}
}

func TestExitStatus(t *testing.T) {
	for script, want := range map[string]syscall.WaitStatus{"exit 7": 7 << 8, "kill -TERM $$": 15, "exit 0": 0} {
		p, _ := start(t, 0, script)
		<-p.Exited()
		if got := p.Status(); got != want {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
		if !p.AwaitGone(time.After(waitLimit), nil) {
			t.Errorf("%s: something is left", script)
		}
	}
	for path, want := range map[string]error{"/nonexistent": syscall.ENOENT, "/": syscall.EACCES} {
		if _, err := Start(Command{Path: path, Argv: []string{path}}, Now().Add(time.Hour)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// Arguments and environment arrive byte for byte, also many of them.
func TestCommandArrivesAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	long := strings.Repeat("x", 100_000)
	argv := []string{"sh", "-c", `printf '%s|%s|%s|%s' "$1" "$2" "$ODD" "$0" >` + file, "name", "a\xffb\n", long}
	p, err := Start(Command{Path: "/bin/sh", Argv: argv, Env: append(os.Environ(), "ODD=\xfe")}, Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	<-p.Exited()
	if got, _ := os.ReadFile(file); string(got) != "a\xffb\n|"+long+"|\xfe|name" {
		t.Errorf("got %.40q", got)
	}
}

// A deadline that has passed has the helper kill the tree, and that is told from any other end.
func TestKilledByHelper(t *testing.T) {
	p, pids := start(t, 1, "echo $$ >>$PIDS; sleep 60")
	p.Extend(Now().Add(50 * time.Millisecond))
	<-p.Exited()
	if !p.KilledByHelper() {
		t.Error("killed by the helper: not seen")
	}
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Error("something is left")
	}
	noneLeft(t, pids)

	p, _ = start(t, 1, "echo $$ >>$PIDS; sleep 60")
	syscall.Kill(p.PID(), syscall.SIGKILL)
	<-p.Exited()
	if p.KilledByHelper() || p.HelperKilled() {
		t.Error("killed by another process: taken for the helper's")
	}
	p, _ = start(t, 1, "echo $$ >>$PIDS; sleep 60")
	p.Kill(time.After(waitLimit))
	if p.KilledByHelper() {
		t.Error("killed by mandate: taken for the helper's")
	}
}

// No signal of a terminal, and none that is sent to our process group, reaches the
// command or a helper.
func TestOutOfReachOfTheTerminal(t *testing.T) {
	p, _ := start(t, 1, "echo $$ >>$PIDS; sleep 60")
	for name, pid := range map[string]int{"command": p.PID(), "helper": p.tree.root} {
		if group, err := syscall.Getpgid(pid); err != nil || group != pid {
			t.Errorf("the %s (%d) is in the process group %d, %v", name, pid, group, err)
		}
	}
}

// A second signal cuts the wait for the command short.
func TestForcedEnd(t *testing.T) {
	p, _ := start(t, 1, "trap '' TERM; echo $$ >>$PIDS; sleep 60")
	force := make(chan struct{})
	close(force)
	if p.Terminate(); p.AwaitGone(nil, force) {
		t.Fatal("it ended on SIGTERM")
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("it survived SIGKILL")
	}
}
