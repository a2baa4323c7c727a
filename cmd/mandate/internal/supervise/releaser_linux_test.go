package supervise

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reported starts a command of a term, and returns what the reaper writes to the releaser.
func reported(t *testing.T, n int, script string) (*Process, *Releaser, []int) {
	t.Helper()
	r, err := NewReleaser()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.r.Close() })
	if err := syscall.SetNonblock(int(r.r.Fd()), true); err != nil {
		t.Fatal(err)
	}
	p, pids := startIn(t, Command{}.For(r, "7 e"), time.Hour, n, script)
	return p, r, pids
}

// line reads what stands in the pipe now.
func (r *Releaser) line() string {
	text := make([]byte, 100)
	n, _ := syscall.Read(int(r.r.Fd()), text)
	return string(text[:max(n, 0)])
}

// The reaper reports that nothing of a term is left when that is so, and no sooner: also a process
// that has left its session and its parent must be dead.
func TestReaperReportsGoneLast(t *testing.T) {
	p, r, pids := reported(t, 2, stubborn+leavers["daemon"]+"\necho $$ >>$PIDS; exit 0")
	defer r.w.Close()
	<-p.Exited()
	time.Sleep(50 * time.Millisecond)
	if line := r.line(); line != "" {
		t.Errorf("the reaper reported %q while processes %v live", line, pids)
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
	if term, ok := Gone([]byte(r.line())); !ok || term != "7 e" {
		t.Errorf("the reaper reported %q, %v; want the term", term, ok)
	}
}

// One that is killed reports nothing, whatever has become of what was below it.
func TestKilledReaperReportsNothing(t *testing.T) {
	Adopt()
	p, r, _ := reported(t, 2, stubborn+leavers["setsid"]+"\necho $$ >>$PIDS; sleep 60")
	syscall.Kill(p.tree.root, syscall.SIGKILL)
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
	r.w.Close()
	await(t, "the end of the pipe", func() bool {
		n, err := syscall.Read(int(r.r.Fd()), make([]byte, 1))
		if n > 0 {
			t.Fatal("a reaper that was killed has reported that all is gone")
		}
		return n == 0 && err == nil
	})
}

// The releaser takes mandate for dead only when that process is: not when its pipe has ended, and not
// when another process has its number.
func TestReleaserAwaitsMandate(t *testing.T) {
	closedPipe := func() error { return nil }
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lives := tree{root: cmd.Process.Pid, start: identify(cmd.Process.Pid)}
	pidfd, err := unix.PidfdOpen(lives.root, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if lives.diedAfter(closedPipe, 20*time.Millisecond) {
		t.Error("a mandate that lives is taken for dead when its pipe has ended")
	}
	for name, fd := range map[string]int{"with a pidfd": pidfd, "without pidfds": -1} {
		if lives.awaitDeath(fd, 20*time.Millisecond) {
			t.Errorf("%s: a mandate that lives is taken for dead", name)
		}
	}
	reused := lives
	reused.start++
	if !reused.diedAfter(closedPipe, waitLimit) {
		t.Error("another process with its number is taken for it")
	}
	dead := make(chan bool)
	for _, fd := range []int{pidfd, -1} {
		go func() { dead <- lives.awaitDeath(fd, waitLimit) }()
	}
	cmd.Process.Kill() // it is a zombie until the Wait of the Cleanup: dead enough, it runs nothing
	for range 2 {
		if !<-dead {
			t.Error("its death is not seen")
		}
	}
	if lives.diedAfter(func() error { return os.ErrClosed }, waitLimit) {
		t.Error("a pipe that could not be read to its end is taken for one that was")
	}
}

// When mandate is searched for what a killed reaper has left, the releaser is none of it.
func TestReleaserIsSpared(t *testing.T) {
	cmd, err := helper(ReleaserName)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	spare := tree{root: os.Getpid(), left: true}.spares()
	if !spare(process{pid: cmd.Process.Pid}) {
		t.Error("the releaser is killed with the rest")
	}
	if spare(process{pid: sibling(t).Process.Pid}) {
		t.Error("any process is spared")
	}
}
