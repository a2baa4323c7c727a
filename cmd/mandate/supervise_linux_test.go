package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// superviseShell is a mandate supervise whose worker is a shell script. It needs no Redis.
func superviseShell(t *testing.T, script string) *exec.Cmd {
	cmd := exec.Command("mandate", "supervise", "--", "sh", "-c", script)
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr // a file: what is left would hold up the reader of a pipe
	cmd.Env = append(os.Environ(), "MANDATE_REDIS=redis://127.0.0.1:1")
	return cmd
}

// endsWith fails the test unless a supervisor has ended with this exit code.
func endsWith(t *testing.T, err error, code int) {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("the supervisor ended with %v, want exit code %d", err, code)
	}
}

// A worker's supervisor exits with the worker's code once nothing is left that it has started: also a
// process that has left its session, and is deaf to SIGTERM.
func TestSuperviseLeavesNothingBehind(t *testing.T) {
	cmd := superviseShell(t, `setsid sh -c 'trap "" TERM; echo $$ >pid.new; mv pid.new pid; sleep 60; sleep 60' & while ! [ -e pid ]; do sleep 0.01; done; exit 7`)
	endsWith(t, cmd.Run(), 7)
	text, err := os.ReadFile(filepath.Join(cmd.Dir, "pid"))
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

// Regression: Ctrl-Z stopped the worker and not its supervisor, so that the terminal was lost: the shell waited, and the
// stopped worker took no Ctrl-C.
func TestSuperviseStopsAndContinuesWithItsWorker(t *testing.T) {
	cmd := superviseShell(t, `echo $$ >pid.new; mv pid.new pid; while :; do sleep 0.01; done`)
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	worker := 0
	servertest.Eventually(t, time.Minute, "the worker runs", func() bool {
		text, err := os.ReadFile(filepath.Join(cmd.Dir, "pid"))
		worker, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	t.Cleanup(func() { _, _ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL), syscall.Kill(worker, syscall.SIGKILL) })
	stopped := func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		_, state, _ := strings.Cut(string(stat), ") ")
		return state[0] == 'T'
	}
	_ = cmd.Process.Signal(syscall.SIGTSTP)
	servertest.Eventually(t, time.Minute, "both are stopped", func() bool { return stopped(cmd.Process.Pid) && stopped(worker) })
	_ = cmd.Process.Signal(syscall.SIGCONT)
	servertest.Eventually(t, time.Minute, "both run again", func() bool { return !stopped(cmd.Process.Pid) && !stopped(worker) })
	_ = syscall.Kill(worker, syscall.SIGSTOP)
	servertest.Eventually(t, time.Minute, "the worker is stopped alone", func() bool { return stopped(worker) && !stopped(cmd.Process.Pid) })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		endsWith(t, err, 128+int(syscall.SIGTERM))
	case <-time.After(time.Minute):
		t.Fatal("a worker that was stopped does not end on SIGTERM")
	}
}

// Regression: a signal that came right after the worker's start ended, or stopped, its supervisor alone.
func TestSuperviseTakesSignalsFromTheStartOfItsWorker(t *testing.T) {
	for range 10 {
		endsWith(t, superviseShell(t, "kill -TERM $PPID; exec sleep 60").Run(), 128+int(syscall.SIGTERM))
	}
}

// The worker inherits from nohup that SIGHUP is ignored, though its supervisor catches all signals before it starts it.
func TestSuperviseLeavesIgnoredWhatNohupHasIgnored(t *testing.T) {
	cmd := exec.Command("nohup", "mandate", "supervise", "--", "sh", "-c", "kill -HUP $$; exit 7")
	cmd.Env, cmd.Stderr = append(os.Environ(), "MANDATE_REDIS=redis://127.0.0.1:1"), os.Stderr
	endsWith(t, cmd.Run(), 7)
}

// Regression: in a new namespace of processes with the old /proc, as of unshare(1) without --mount-proc, the
// supervisor took the children of the machine's process 1 for its own, and killed processes by their numbers.
func TestSuperviseKnowsWhoseProcItIs(t *testing.T) {
	// The process must have left the group, which is all that is known without /proc, when the worker ends.
	cmd := superviseShell(t, "setsid sh -c '>left; exec sleep 60' & until [ -e left ]; do sleep 0.01; done; exit 7")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer func() { _ = file.Close() }()
	cmd.Stderr = file
	err = cmd.Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("no namespaces here: %v", err)
	}
	endsWith(t, err, 7)
	if text, err := os.ReadFile(file.Name()); err != nil || !strings.Contains(string(text), `its lease lapses" processes=""`) {
		t.Errorf("%s, %v", text, err)
	}
}

// A worker that reads from the terminal, to ask for a password for example, is stopped by that, and leads without
// doing anything: the log says why.
func TestSuperviseLogsAWorkerThatTheTerminalHasStopped(t *testing.T) {
	cmd := superviseShell(t, "kill -TTIN $$; exit 5")
	cmd.Stderr = nil
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	watch := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer watch.Stop()
	line, err := bufio.NewReader(log).ReadString('\n')
	if !strings.Contains(line, `msg="command stopped by the terminal, of which it is not in the foreground"`) {
		t.Errorf("%q, %v", line, err)
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	endsWith(t, cmd.Wait(), 5)
}
