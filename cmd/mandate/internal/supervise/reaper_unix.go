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

// These are the reaper's files other than the standard ones.
const (
	fdCommand = 3 // read: the command, then keepAlives, and the end of the pipe when mandate dies
	fdReports = 4 // written: started PID ERRNO (why it is not in its cgroup), or failed ERRNO; stopped SIGNAL; detached, before the reaper kills; ended STATUS
	// fdReleaser is open only for the command of a term. The reaper reports on it that nothing is
	// left.
	fdReleaser = 5
)

const detached = "detached\n"

// ReaperMain is the main function of the reaper process. It starts the command that it reads, and
// lives until the command and all its descendants have ended.
//
// The command must not run before the guard knows the tree: if mandate was killed in between, the
// command would live on. So mandate starts the reaper, names it to the guard, and only then sends
// the command.
func ReaperMain() {
	// The kernel kills the command when the thread (not the process) that has started it ends.
	runtime.LockOSThread()
	ignoreSignals()
	syscall.CloseOnExec(fdCommand)
	syscall.CloseOnExec(fdReports)
	syscall.CloseOnExec(fdReleaser)
	in, reports := os.NewFile(fdCommand, "command"), os.NewFile(fdReports, "reports")
	messages := bufio.NewReader(in) // gob reads only its own message from a bufio.Reader
	var a assignment
	if adoptOrphans() != nil || gob.NewDecoder(messages).Decode(&a) != nil {
		os.Exit(1) // mandate has ended already (adoptOrphans fails on no system that Go supports)
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
		for p := (pauses{}); ; time.Sleep(p.next()) { // the end of the last child ends this process
			t.signal(syscall.SIGKILL)
		}
	}()
	reap(pid, func(ws syscall.WaitStatus) { fmt.Fprintf(reports, "ended %d\n", ws) }, func(sig syscall.Signal) { fmt.Fprintf(reports, "stopped %d\n", sig) })
	// Mandate may be dead, so that the reaper must remove the cgroup; and a member that is not a
	// child of the reaper may be about to end.
	deadline := time.Now().Add(time.Second)
	for p := (pauses{}); a.Cgroup.remove() && time.Now().Before(deadline); {
		time.Sleep(p.next())
	}
	if a.Term != "" && !a.Cgroup.populated() {
		reportGone(fdReleaser, a.Term)
	}
	os.Exit(0)
}

// assignment is the command that the reaper starts, and where.
type assignment struct {
	Command Command
	Cgroup  cgroup
	Term    string // the name of the term for the releaser; "": none
}

// start starts the command. outside is why it could not be put into its cgroup; it runs
// nevertheless.
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
	// The error does not show whether the kernel refused the cgroup or the command, so try without
	// the cgroup: a filter may forbid clone3, or the cgroup may have been removed.
	if outside != nil {
		pid, err = fork(*attr)
	}
	return pid, outside, err
}

// errnoOf returns the error number of err, 0 for nil, or EIO if it has none.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	errno := syscall.EIO
	_ = errors.As(err, &errno)
	return errno
}

// reap waits for all children, also adopted ones, until none is left. It calls stopped when the
// terminal has stopped the command for using it in the background.
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

// ignoreSignals makes the reaper ignore the signals of a terminal, and of an operator who stops all
// processes: the reaper exits only when its children have. It catches these signals and does not
// set them to be ignored, because the command would inherit that.
func ignoreSignals() {
	passing := []os.Signal{
		syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
		syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2,
	}
	// Signals that nohup or a shell's & have set to be ignored stay so, and the command inherits
	// that.
	passing = slices.DeleteFunc(passing, signal.Ignored)
	signal.Notify(make(chan os.Signal, 1), passing...)
}

// detachStreams replaces the standard streams by /dev/null, so that a reader of the command's
// output sees the end of it when the command has ended.
func detachStreams() {
	for fd := range 3 {
		_ = syscall.Close(fd)
		_, _ = syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0) // takes the lowest number, which is this one
	}
}
