package supervise

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// outOfFiles leaves this process no file descriptor to open until it is given back.
func outOfFiles(t *testing.T) (giveBack func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	giveBack = func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) }
	t.Cleanup(giveBack)
	return giveBack
}

// A guard that can't be started is an error and no more: the next attempt may succeed,
// and until then the reaper has its messages.
func TestGuardThatCanNotBeStarted(t *testing.T) {
	p, pids := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	syscall.Kill(p.GuardPID(), syscall.SIGKILL)
	<-p.GuardGone()
	giveBack := outOfFiles(t)
	for range 3 {
		if err := p.ReplaceGuard(); !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("ReplaceGuard: %v, want %v", err, syscall.EMFILE)
		}
	}
	p.Extend(Now().Add(time.Hour)) // a guard that is gone is no obstacle
	giveBack()
	if gone(pids[0]) {
		t.Fatal("the command ended with the failed attempt")
	}
	if err := p.ReplaceGuard(); err != nil {
		t.Fatal(err)
	}
	p.Extend(Now())
	<-p.Exited()
	if !p.KilledByGuard() {
		t.Error("the guard that was started at last did not kill the command")
	}
}

// With no guard and no way to start one, the reaper kills a silent mandate's command.
func TestReaperStandsInForAGuardThatCanNotBeStarted(t *testing.T) {
	p, pids := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	syscall.Kill(p.GuardPID(), syscall.SIGKILL)
	<-p.GuardGone()
	giveBack := outOfFiles(t)
	if err := p.ReplaceGuard(); err == nil {
		t.Fatal("a guard was started")
	}
	p.Extend(Now().Add(50 * time.Millisecond))
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Error("something is left")
	}
	giveBack()
	noneLeft(t, pids)
}

// Nothing is started without a guard.
func TestStartWithoutAGuard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "started")
	giveBack := outOfFiles(t)
	_, err := Start(Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "touch " + file}, Env: os.Environ()}, Now().Add(time.Hour))
	giveBack()
	if !errors.Is(err, ErrStart) || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Start: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command was started")
	}
}

// A mandate that is out of file descriptors still sees that its command's cgroup is empty,
// and that it may release the lock.
func TestCgroupWithoutFiles(t *testing.T) {
	needCgroup(t)
	p, _ := contained(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	giveBack := outOfFiles(t)
	killed := p.Kill(time.After(waitLimit))
	giveBack()
	if !killed {
		t.Error("said to be there")
	}
}

// A deploy has removed or replaced the program's file: a guard is still this very program.
func TestGuardOfAProgramThatWasDeleted(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	name := filepath.Join(t.TempDir(), "mandate")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, self); err != nil {
		t.Fatal(err)
	}
	file.Close()
	cmd := exec.CommandContext(t.Context(), name)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "SUPERVISE_DELETED="+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
