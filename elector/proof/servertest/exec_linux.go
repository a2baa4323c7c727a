package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// HungShell makes a shell whose execve hangs until free is called or its process is killed: the kernel holds up everyone
// who opens a file on which somebody has a lease, for 45 s mostly.
func HungShell(t testing.TB, path string) (free func()) {
	t.Helper()
	shell, err := os.ReadFile("/bin/sh")
	if err == nil {
		err = os.WriteFile(path, shell, 0o700)
	}
	Must(t, err)
	lease, err := os.Open(path)
	Must(t, err)
	free = func() { _ = lease.Close() }
	t.Cleanup(free)
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, lease.Fd(), syscall.F_SETLEASE, syscall.F_WRLCK); errno != 0 {
		t.Skip("no leases on files here: ", errno)
	}
	return free
}

const traced = "SERVERTEST_TRACED" // the process that this program, started once more, is to hold

// init is the tracer: the parent of a process learns of its stops by wait(2) if it traces it itself.
func init() { //nolint:gochecknoinits // each package has its own TestMain
	pid, err := strconv.Atoi(os.Getenv(traced))
	if err != nil {
		return
	}
	runtime.LockOSThread() // one thread is the tracer
	if err := syscall.PtraceAttach(pid); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); { // until it has stopped: a SIGCONT would forget a stop that is still to come
		_, err = syscall.Wait4(pid, nil, syscall.WUNTRACED, nil)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// Trace holds a process as a debugger does, until the test ends: only SIGKILL wakes it. It holds the main thread, and
// so a program whose main goroutine is locked to that.
func Trace(t testing.TB, pid int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), traced+"="+strconv.Itoa(pid))
	in, ierr := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	Must(t, errors.Join(ierr, oerr, cmd.Start()))
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Skip("no tracing here: ", line)
	}
}
