//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case GuardName:
		GuardMain()
	case ReaperName:
		ReaperMain()
	}
	if script := os.Getenv("SUPERVISE_STOPS"); script != "" {
		stopsWithoutReaper(script)
	}
	os.Exit(m.Run())
}

// stopsWithoutReaper is a mandate whose reaper is killed, and that is stopped before it
// can do anything about it.
func stopsWithoutReaper(script string) {
	Adopt()
	os.Unsetenv("SUPERVISE_STOPS")
	p, err := Start(Command{"/bin/sh", []string{"sh", "-c", script}, os.Environ()}, Now().Add(time.Hour))
	if err != nil {
		panic(err)
	}
	for text := []byte(nil); strings.Count(string(text), "\n") < 7; time.Sleep(time.Millisecond) {
		text, _ = os.ReadFile(os.Getenv("PIDS"))
	}
	p.Tell(Now().Add(300 * time.Millisecond))
	syscall.Kill(p.tree.root, syscall.SIGKILL)
	<-p.gone
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(time.Hour)
}

// patience is how long the tests wait for what should happen: far more than it takes.
const patience = 30 * time.Second

// start runs a shell script that notes the numbers of its processes (one a line) in
// the file $PIDS, and waits until there are n.
func start(t *testing.T, until time.Duration, n int, script string) (p *Process, pids []int) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // built with -race the helpers would take a second to end
	file := filepath.Join(t.TempDir(), "pids")
	p, err := Start(Command{"/bin/sh", []string{"sh", "-c", script}, append(os.Environ(), "PIDS="+file)}, Now().Add(until))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill(time.After(patience))
		p.Close()
	})
	await(t, "the numbers of the processes", func() bool {
		pids = numbers(t, file)
		return len(pids) >= n
	})
	return p, pids
}

// numbers reads a file of them.
func numbers(t *testing.T, file string) (pids []int) {
	t.Helper()
	text, _ := os.ReadFile(file)
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// reaped tells whether no trace of a process is left.
func reaped(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func noneLeft(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if !reaped(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// A command that ends well on SIGTERM gets no SIGKILL, and each of its processes one
// SIGTERM only: a trap runs once.
func TestPoliteCommandIsAskedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traps")
	p, pids := start(t, time.Hour, 2, `
		trap 'echo outer >>`+file+`; kill $child; exit 5' TERM
		sh -c 'trap "echo inner >>`+file+`; exit 0" TERM; echo $$ >>$PIDS; while :; do sleep 0.01; done' & child=$!
		echo $$ >>$PIDS
		while :; do sleep 0.01; done`)
	p.Terminate()
	if !p.AwaitGone(time.After(patience), nil) {
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
		if !p.AwaitGone(time.After(patience), nil) {
			t.Errorf("%s: something is left", script)
		}
	}
	for path, want := range map[string]error{"/nonexistent": syscall.ENOENT, "/": syscall.EACCES} {
		if _, err := Start(Command{Path: path, Argv: []string{path}}, Now().Add(time.Hour)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// The command starts with the signals that this process was started with, whatever
// was caught or ignored since. make, for one, hands down an ignored signal 32.
func TestCommandInheritsNoSignals(t *testing.T) {
	const show = `grep -E '^Sig(Ign|Blk)' /proc/self/status`
	want, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", show).Output()
	if err != nil {
		t.Skip("no /proc here")
	}
	file := filepath.Join(t.TempDir(), "status")
	p, _ := start(t, time.Hour, 0, show+" >"+file)
	<-p.Exited()
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("the command ignores or blocks %q, want %q (%v)", got, want, err)
	}
}

// Arguments and environment arrive byte for byte, also many of them.
func TestCommandArrivesAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	long := strings.Repeat("x", 100_000)
	argv := []string{"sh", "-c", `printf '%s|%s|%s|%s' "$1" "$2" "$ODD" "$0" >` + file, "name", "a\xffb\n", long}
	p, err := Start(Command{"/bin/sh", argv, append(os.Environ(), "ODD=\xfe")}, Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	<-p.Exited()
	if got, _ := os.ReadFile(file); string(got) != "a\xffb\n|"+long+"|\xfe|name" {
		t.Errorf("got %.40q", got)
	}
}

// Silence beyond the order's time, or the end of mandate, has the guard kill the tree;
// and that is told from any other end.
func TestKilledByGuard(t *testing.T) {
	p, pids := start(t, 300*time.Millisecond, 1, "echo $$ >>$PIDS; sleep 1000")
	<-p.Exited()
	if !p.KilledByGuard() {
		t.Error("killed by the guard: not seen")
	}
	if !p.AwaitGone(time.After(patience), nil) {
		t.Error("something is left")
	}
	noneLeft(t, pids)

	p, _ = start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 1000")
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
	p, pids := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 1000")
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
	p.Tell(Now().Add(50 * time.Millisecond))
	<-p.Exited()
	if !p.KilledByGuard() {
		t.Error("the new guard did not kill the command")
	}
}

// A guard that is told nothing new still has the order that the last one had.
func TestReplacedGuardKnowsTheTime(t *testing.T) {
	p, _ := start(t, time.Second, 1, "echo $$ >>$PIDS; sleep 1000")
	syscall.Kill(p.GuardPID(), syscall.SIGKILL)
	<-p.GuardGone()
	if err := p.ReplaceGuard(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.GuardGone():
	case <-time.After(patience):
		t.Fatal("the new guard waits for an order")
	}
	if !p.GuardHasKilled() {
		t.Error("the new guard has ended, but not by killing")
	}
}

// Killed between starting the reaper and telling the guard, mandate leaves nothing
// behind: the reaper ends instead of starting a command.
func TestReaperEndsWithoutACommand(t *testing.T) {
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{})}
	reports, err := p.startReaper()
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
	case <-time.After(patience):
		p.reaper.Process.Kill()
		t.Fatal("it waits on")
	}
}

// No signal of a terminal, and none that is sent to our process group, reaches the
// command or a helper.
func TestOutOfReachOfTheTerminal(t *testing.T) {
	p, _ := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 1000")
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
func TestHurry(t *testing.T) {
	p, _ := start(t, time.Hour, 1, "trap '' TERM; echo $$ >>$PIDS; sleep 1000")
	hurry := make(chan struct{})
	close(hurry)
	if p.Terminate(); p.AwaitGone(nil, hurry) {
		t.Fatal("it ended on SIGTERM")
	}
	if !p.Kill(time.After(patience)) {
		t.Fatal("it survived SIGKILL")
	}
}

// sibling is a process that none of this concerns.
func sibling(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.Process.Kill() != nil {
			t.Error("a process that is none of the command's was killed")
		}
		cmd.Wait()
	})
	return cmd
}
