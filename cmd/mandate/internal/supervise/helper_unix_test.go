//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A machine that was suspended stops no timer: the deadline of a command is read again soon, however far off it is.
func TestSuspendedMachine(t *testing.T) {
	k := &keeper{commands: map[int]*command{1: {until: Now().Add(time.Hour)}}}
	if ms := k.wait(forever); ms < 0 || ms > 1000 {
		t.Errorf("the deadline is checked after %d ms", ms)
	}
	k.commands[1].until = forever
	if ms := k.wait(forever); ms >= 0 {
		t.Errorf("without a deadline it wakes after %d ms", ms)
	}
}

// A helper that was stopped beyond its deadline reads what mandate has written meanwhile, before it kills. What
// it can't read changes nothing.
func TestExtendedWhileTheHelperWasStopped(t *testing.T) {
	h := newHelper(t)
	p, _ := h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	p.Extend(Now().Add(time.Second))
	time.Sleep(200 * time.Millisecond) // it has read that
	_ = h.cmd.Process.Signal(syscall.SIGSTOP)
	control(h.w, func(fd int) {
		_, _ = syscall.Write(fd, []byte("garbage\n{}\n{\"id\":9,\"until\":1}\n{\"elected\":{}}\n"))
	})
	time.Sleep(1200 * time.Millisecond)
	p.Extend(Now().Add(time.Hour))
	h.wake()
	time.Sleep(100 * time.Millisecond)
	if p.HasExited() {
		t.Errorf("killed although it was extended: %v", p.Status)
	}
	kill(t, p)
}

// Nothing is started whose time has passed, or by an order for an earlier helper, which was killed.
func TestStaleOrders(t *testing.T) {
	h := newHelper(t)
	late, err := h.Start([]string{"SCRIPT=exit 0"}, Now().Add(-time.Second))
	must(t, err)
	if isGone(t, late); !errors.Is(late.Failed, ErrStart) {
		t.Errorf("started after its deadline: %v", late.Failed)
	}
	file := filepath.Join(t.TempDir(), "started")
	_ = h.cmd.Process.Signal(syscall.SIGSTOP)
	h.lastID++
	h.send(order{ID: h.lastID, Start: []string{"SCRIPT=touch " + file}, Until: Now().Add(time.Hour)})
	_ = h.cmd.Process.Kill()
	<-h.ended
	p, _ := h.run(t, 0, "sleep 0.2; exit 7") // time for the stale order's command
	if isGone(t, p); p.Status.ExitStatus() != 7 {
		t.Errorf("the command of the next helper ended with %v", p.Status)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the next helper has obeyed an order for the one before")
	}
	if _, err := h.Start([]string{fmt.Sprintf("LONG=%05000d", 1)}, Now().Add(time.Hour)); !errors.Is(err, ErrStart) {
		t.Errorf("an order too long for a pipe to keep together: %v", err)
	}
}

// A program that does not run the helper must not be started as one: this test binary would run all
// tests, each of which would start one more.
func TestHelperNeedsDispatch(t *testing.T) {
	dispatched = false // TestMain has forgotten
	defer func() { dispatched = true }()
	h, err := NewHelper()
	must(t, err)
	if err := h.Begin(Setup{}); err == nil {
		t.Error("a program that runs no helper starts one")
	}
}

// A helper that was stopped while mandate followed must not hold up the next term: mandate would lead,
// and run nothing.
func TestStartWhileTheHelperIsStopped(t *testing.T) {
	h := newHelper(t)
	must(t, h.cmd.Process.Signal(syscall.SIGSTOP))
	if p, err := h.Start([]string{"SCRIPT=exit 0"}, Now().Add(time.Minute)); err != nil {
		t.Error(err)
	} else if !p.AwaitGone(time.After(time.Minute), nil) {
		t.Error("it is still there")
	}
}
