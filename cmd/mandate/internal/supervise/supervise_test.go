//go:build unix

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

func TestMain(m *testing.M) {
	if Dispatch() {
		return
	}
	if os.Args[0] == "threads" {
		threads()
	}
	os.Exit(m.Run())
}

// waitLimit is how long the tests wait for what should happen: far more than it takes.
const waitLimit = 30 * time.Second

// newHelper starts a helper, whose commands are shell scripts.
func newHelper(t *testing.T) *Helper {
	t.Helper()
	return newHelperOf(t, "/bin/sh", evalScript...)
}

var evalScript = []string{"sh", "-c", `eval "$SCRIPT"`}

func newHelperOf(t *testing.T, path string, argv ...string) *Helper {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // built with -race the helper would take a second to end
	h, err := NewHelper()
	must(t, err)
	must(t, h.Begin(Setup{Path: path, Argv: argv}))
	t.Cleanup(h.Close)
	return h
}

// run runs a shell script that notes the numbers of its processes (one a line) in
// the file $PIDS, and waits until there are n.
func (h *Helper) run(t *testing.T, n int, script string) (p *Process, pids []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	p, err := h.Start([]string{"SCRIPT=" + script, "PIDS=" + file}, Now().Add(time.Hour))
	must(t, err)
	<-p.Started
	t.Cleanup(func() { sweep(t, file) })
	await(t, "the numbers of the processes", func() bool {
		pids = numbers(t, file)
		return len(pids) >= n
	})
	return p, pids
}

// kill ends a command, and fails the test if something of it is left.
func kill(t *testing.T, p *Process) {
	t.Helper()
	p.Stop(Now())
	isGone(t, p)
}

func isGone(t *testing.T, p *Process) {
	t.Helper()
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("something is left:", p.Left())
	}
}

// numbers reads a file of them.
func numbers(t *testing.T, file string) (pids []int) {
	t.Helper()
	text, _ := os.ReadFile(file)
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		must(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// sweep ends what a failed test has left behind: every process whose environment holds the name of a
// file of the test's own. Without /proc the scripts end after a minute.
func sweep(t *testing.T, file string) {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		environ, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if pid != os.Getpid() && bytes.Contains(environ, []byte("="+file+"\x00")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	servertest.Eventually(t, waitLimit, what, done)
}

// reaped reports whether no trace of a process is left.
func reaped(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func noneLeft(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if !reaped(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// threads is a program whose main thread ends, and others work on.
func threads() {
	runtime.LockOSThread() // the main thread, on which the main goroutine began
	go func() {
		f, _ := os.OpenFile(os.Getenv("PIDS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		fmt.Fprintln(f, os.Getpid())
		time.Sleep(time.Minute)
		os.Exit(0)
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

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
		p, err := newHelperOf(t, path, path).Start(nil, Now().Add(time.Hour))
		must(t, err)
		if isGone(t, p); !errors.Is(p.Failed, want) {
			t.Errorf("%s: %v, want %v", path, p.Failed, want)
		}
	}
}

// Arguments and environment arrive byte for byte, also many of them.
func TestCommandArrivesAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	long := strings.Repeat("x", 100_000)
	t.Setenv("ODD", "\xfe")
	h := newHelperOf(t, "/bin/sh", "sh", "-c", `printf '%s|%s|%s|%s|%s' "$1" "$2" "$ODD" "$0" "$MORE" >`+file, "name", "a\xffb\n", long)
	p, err := h.Start([]string{"MORE=\"é\n"}, Now().Add(time.Hour))
	must(t, err)
	<-p.Exited
	if got, _ := os.ReadFile(file); string(got) != "a\xffb\n|"+long+"|\xfe|name|\"é\n" {
		t.Errorf("got %.40q", got)
	}
}

// A deadline that has passed has the helper kill the tree, and that is told from any other end, also if mandate has set
// a later one before it learns of it.
func TestKilledByHelper(t *testing.T) {
	h := newHelper(t)
	p, pids := h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	p.Extend(Now().Add(50 * time.Millisecond))
	h.mu.Lock()
	await(t, "its end", func() bool { return reaped(pids[0]) })
	h.send(order{ID: p.id, Until: Now().Add(time.Hour)})
	h.mu.Unlock()
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
