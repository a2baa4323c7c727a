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
	p, pids := newHelper(t).run(t, 2, `
		trap 'echo outer >>`+file+`; kill $child; exit 5' TERM
		sh -c 'trap "echo inner >>`+file+`; exit 0" TERM; echo $$ >>$PIDS; i=0; while [ $((i+=1)) -lt 6000 ]; do sleep 0.01; done' & child=$!
		echo $$ >>$PIDS
		i=0; while [ $((i+=1)) -lt 6000 ]; do sleep 0.01; done`)
	p.Stop(Now().Add(time.Hour))
	p.Stop(Now().Add(time.Hour)) // as it is repeated
	isGone(t, p)
	if ws := p.Status; ws.ExitStatus() != 5 {
		t.Errorf("the command ended with %v, want 5", ws)
	}
	noneLeft(t, pids)
	if text, _ := os.ReadFile(file); strings.Count(string(text), "outer") != 1 {
		t.Errorf("its trap ran other than once: %q", text)
	}
}

func TestExitStatus(t *testing.T) {
	h := newHelper(t)
	for script, want := range map[string]syscall.WaitStatus{"exit 7": 7 << 8, "kill -TERM $$": 15, "exit 0": 0} {
		p, _ := h.run(t, 0, script)
		<-p.Exited
		if got := p.Status; got != want {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
		isGone(t, p)
	}
	for path, want := range map[string]error{"/nonexistent": syscall.ENOENT, "/": syscall.EACCES} {
		h, err := NewHelper()
		if err == nil {
			err = h.Begin(Setup{Path: path, Argv: []string{path}})
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := h.Start(nil, Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if isGone(t, p); !errors.Is(p.Failed, want) {
			t.Errorf("%s: %v, want %v", path, p.Failed, want)
		}
		h.Close()
	}
}

// Arguments and environment arrive byte for byte, also many of them.
func TestCommandArrivesAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	long := strings.Repeat("x", 100_000)
	t.Setenv("ODD", "\xfe")
	h, err := NewHelper()
	if err == nil {
		err = h.Begin(Setup{Path: "/bin/sh", Argv: []string{"sh", "-c", `printf '%s|%s|%s|%s|%s' "$1" "$2" "$ODD" "$0" "$MORE" >` + file, "name", "a\xffb\n", long}})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p, err := h.Start([]string{"MORE=\"é\n"}, Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited
	if got, _ := os.ReadFile(file); string(got) != "a\xffb\n|"+long+"|\xfe|name|\"é\n" {
		t.Errorf("got %.40q", got)
	}
}

// A deadline that has passed has the helper kill the tree, and that is told from any other end.
func TestKilledByHelper(t *testing.T) {
	h := newHelper(t)
	p, pids := h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	p.Extend(Now().Add(50 * time.Millisecond))
	<-p.Exited
	if !p.Late {
		t.Error("killed by the helper: not seen")
	}
	isGone(t, p)
	noneLeft(t, pids)

	p, _ = h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	syscall.Kill(p.PID, syscall.SIGKILL)
	<-p.Exited
	if p.Late || p.Orphan {
		t.Error("killed by another process: taken for the helper's")
	}
	p, _ = h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	if kill(t, p); p.Late {
		t.Error("killed by mandate: taken for the helper's")
	}
}

// No signal of a terminal, and none that is sent to our process group, reaches the
// command or a helper.
func TestOutOfReachOfTheTerminal(t *testing.T) {
	h := newHelper(t)
	p, _ := h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	for name, pid := range map[string]int{"command": p.PID, "helper": h.cmd.Process.Pid} {
		if group, err := syscall.Getpgid(pid); err != nil || group != pid {
			t.Errorf("the %s (%d) is in the process group %d, %v", name, pid, group, err)
		}
	}
}

// A second signal cuts the wait for the command short.
func TestForcedEnd(t *testing.T) {
	p, _ := newHelper(t).run(t, 1, "trap '' TERM; echo $$ >>$PIDS; sleep 60")
	force := make(chan struct{})
	close(force)
	if p.Stop(Now().Add(time.Hour)); p.AwaitGone(nil, force) {
		t.Fatal("it ended on SIGTERM")
	}
	kill(t, p)
}
