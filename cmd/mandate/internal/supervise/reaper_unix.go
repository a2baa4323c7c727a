//go:build unix

package supervise

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// The reaper's files beside the standard ones.
const (
	fdCommand = 3 // it reads: the command, then the guard's messages, and the end of the pipe, which is that of mandate
	fdReports = 4 // it writes: started PID ERRNO (why it is not in its cgroup), or failed ERRNO; stopped SIGNAL; detached before it kills; ended STATUS
	// fdReleaser is there for the command of a term only. It writes that nothing is left.
	fdReleaser = 5
)

const detached = "detached\n"

// ReaperMain is the reaper process. It starts the command that it reads, and lives
// until that and everything below it has ended.
//
// The command must not run before the guard knows the tree: were mandate killed in
// between, what it has started by then would live on. So mandate starts the reaper,
// names it to the guard, and only then sends the command.
func ReaperMain() {
	// The kernel kills the command when the THREAD that has started it ends.
	runtime.LockOSThread()
	ignoreSignals()
	syscall.CloseOnExec(fdCommand)
	syscall.CloseOnExec(fdReports)
	syscall.CloseOnExec(fdReleaser)
	in, reports := os.NewFile(fdCommand, "command"), os.NewFile(fdReports, "reports")
	messages := bufio.NewReader(in) // gob reads no byte too many from it
	var a assignment
	if adoptOrphans() != nil || gob.NewDecoder(messages).Decode(&a) != nil {
		os.Exit(1) // mandate has ended before; or a system that no document promises anything for
	}
	pid, outside, err := a.start()
	if err != nil {
		fmt.Fprintf(reports, "failed %d\n", errnoOf(err))
		os.Exit(0)
	}
	fmt.Fprintf(reports, "started %d %d\n", pid, errnoOf(outside))
	detachStreams()
	go func() {
		follow(messages, Now)
		fmt.Fprint(reports, detached)
		t := tree{root: os.Getpid(), group: pid, cgroup: a.Cgroup}
		for p := (pauses{}); ; time.Sleep(p.next()) { // until the end of the last child ends us
			t.signal(syscall.SIGKILL)
		}
	}()
	reap(pid, func(ws syscall.WaitStatus) { fmt.Fprintf(reports, "ended %d\n", ws) }, func(sig syscall.Signal) { fmt.Fprintf(reports, "stopped %d\n", sig) })
	// Mandate may be dead; and a member that is no child of ours may be about to end.
	deadline := time.Now().Add(time.Second)
	for p := (pauses{}); a.Cgroup.remove() && time.Now().Before(deadline); {
		time.Sleep(p.next())
	}
	if a.Term != "" && !a.Cgroup.populated() {
		reportGone(fdReleaser, a.Term)
	}
	os.Exit(0)
}

// assignment is what the reaper is to start, and where.
type assignment struct {
	Command Command
	Cgroup  cgroup
	Term    string // for the releaser; "": there is none
}

// start starts the command. Outside is why it could not be put into its cgroup: it runs
// all the same.
func (a assignment) start() (pid int, outside, err error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	fork := func(attr syscall.SysProcAttr) (int, error) {
		c := a.Command
		return syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{Env: c.Env, Files: []uintptr{0, 1, 2}, Sys: &attr})
	}
	if a.Cgroup == "" {
		pid, err = fork(*attr)
		return pid, nil, err
	}
	inside := *attr
	done, outside := a.Cgroup.enter(&inside)
	if outside == nil {
		pid, outside = fork(inside)
		done()
	}
	// Whether it was the cgroup or the command that the kernel refused is found out by
	// trying without: a filter may forbid clone3, and the group may be removed.
	if outside != nil {
		pid, err = fork(*attr)
	}
	return pid, outside, err
}

// errnoOf is 0 for no error.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	errno := syscall.EIO
	_ = errors.As(err, &errno)
	return errno
}

// reap waits for all children, those that were adopted too, until none is left. It calls stopped when the
// command has used the terminal, of which it is not in the foreground.
func reap(command int, ended func(syscall.WaitStatus), stopped func(syscall.Signal)) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			awaitGroup(command)
			return
		case pid == command && ws.Stopped():
			if sig := ws.StopSignal(); sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
				stopped(sig)
			}
		case pid == command:
			ended(ws)
		}
	}
}

// ignoreSignals has the signals of a terminal, and of an operator who stops all processes,
// ignored: the reaper ends when its children have. They are caught, and not ignored: the
// command would inherit that.
func ignoreSignals() {
	passing := []os.Signal{
		syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
		syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2,
	}
	// What nohup or a shell's & have ignored the command inherits.
	passing = slices.DeleteFunc(passing, signal.Ignored)
	signal.Notify(make(chan os.Signal, 1), passing...)
}

// detachStreams has /dev/null take the place of the standard streams, so that what reads the
// command's output sees its end.
func detachStreams() {
	for fd := range 3 {
		_ = syscall.Close(fd)
		_, _ = syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0) // takes the lowest number, which is this one
	}
}
