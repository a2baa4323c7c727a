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

	"golang.org/x/sys/unix"
)

// A command that ends well on SIGTERM gets no SIGKILL, and each of its processes one
// SIGTERM only: a trap runs once.
func TestPoliteCommandIsSignaledOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traps")
	p, pids := start(t, time.Hour, 2, `
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
		p, _ := start(t, time.Hour, 0, script)
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

// No keepAlive in time, or the end of mandate, has the guard kill the tree;
// and that is told from any other end.
func TestKilledByGuard(t *testing.T) {
	p, pids := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	p.Extend(Now().Add(300 * time.Millisecond)) // not at the start: a busy machine needs longer to start the script
	<-p.Exited()
	if !p.KilledByGuard() {
		t.Error("killed by the guard: not seen")
	}
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Error("something is left")
	}
	noneLeft(t, pids)

	p, _ = start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	syscall.Kill(p.PID(), syscall.SIGKILL)
	<-p.Exited()
	if p.KilledByGuard() {
		t.Error("killed by somebody else: taken for the guard's")
	}
	p, _ = start(t, time.Hour, 0, "exit 0")
	<-p.Exited()
	if p.KilledByGuard() {
		t.Error("ended by itself: taken for the guard's")
	}
}

// A guard that was killed has not killed the tree, and the next one knows all that it
// knew.
func TestGuardIsReplaced(t *testing.T) {
	p, pids := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	for range 3 {
		syscall.Kill(p.GuardPID(), syscall.SIGKILL)
		<-p.GuardGone()
		if p.KilledByGuard() {
			t.Fatal("a killed guard counts as one that has done its work")
		}
		if err := p.ReplaceGuard(); err != nil {
			t.Fatal(err)
		}
	}
	if reaped(pids[0]) {
		t.Fatal("the command was killed with its guard")
	}
	p.Extend(Now().Add(50 * time.Millisecond))
	<-p.Exited()
	if !p.KilledByGuard() {
		t.Error("the new guard did not kill the command")
	}
}

// A guard that replaces another one has the keepAlive of that one.
func TestReplacedGuardKnowsTheTime(t *testing.T) {
	p, _ := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	stop(p.GuardPID()) // it must not act before it is killed
	stop(p.tree.root)  // nor the reaper
	p.Extend(Now().Add(100 * time.Millisecond))
	syscall.Kill(p.GuardPID(), syscall.SIGKILL)
	<-p.GuardGone()
	if err := p.ReplaceGuard(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.GuardGone():
	case <-time.After(waitLimit):
		t.Fatal("the new guard waits for a keepAlive")
	}
	if !p.GuardHasKilled() {
		t.Error("the new guard has ended, but not by killing")
	}
}

// Killed between starting the reaper and telling the guard, mandate leaves nothing
// behind: the reaper ends instead of starting a command.
func TestReaperEndsWithoutACommand(t *testing.T) {
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{})}
	reports, err := p.startReaper(Command{})
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	p.pipe.Close() // as the kernel does it when we die
	ended := make(chan error)
	go func() { ended <- p.reaper.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it says that a command has ended")
		}
	case <-time.After(waitLimit):
		p.reaper.Process.Kill()
		t.Fatal("it waits on")
	}
}

// No signal of a terminal, and none that is sent to our process group, reaches the
// command or a helper.
func TestOutOfReachOfTheTerminal(t *testing.T) {
	p, _ := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	for name, pid := range map[string]int{"command": p.PID(), "reaper": p.tree.root, "guard": p.GuardPID()} {
		if group, err := syscall.Getpgid(pid); err != nil || group != pid {
			t.Errorf("the %s (%d) is in the process group %d, %v", name, pid, group, err)
		}
	}
	ours, _ := unix.Getsid(0)
	if session, err := unix.Getsid(p.GuardPID()); err != nil || session == ours {
		t.Errorf("the guard is in our session, %v", err)
	}
}

// A second signal cuts the wait for the command short.
func TestForcedEnd(t *testing.T) {
	p, _ := start(t, time.Hour, 1, "trap '' TERM; echo $$ >>$PIDS; sleep 60")
	force := make(chan struct{})
	close(force)
	if p.Terminate(); p.AwaitGone(nil, force) {
		t.Fatal("it ended on SIGTERM")
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("it survived SIGKILL")
	}
}
