package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fdTerms is the worker's only file other than the standard ones: the pipe on which it reports its
// terms.
const fdTerms = 3

// Worker is a child of this process that campaigns itself, with all its descendants. This process
// adopts and reaps all orphans, as process 1 of a container must.
type Worker struct {
	PID int
	r   *os.File

	signals chan os.Signal // received by this process
	stopped chan syscall.Signal
	exited  chan struct{} // closed when the worker itself has ended
	status  syscall.WaitStatus
	gone    chan struct{} // closed when this process has no child left
}

// ReportPipe makes the pipe on which electors report their terms. Writes to it never block: what
// does not fit is lost. name names w, as a process that has it as file descriptor fd, or if that is 0
// as this process has it.
func ReportPipe(fd int) (r, w *os.File, name string, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, "", os.NewSyscallError("pipe2", err)
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, 1<<20) // if this fails, the pipe has the default size
	var st unix.Stat_t
	if err := errors.Join(unix.SetNonblock(fds[1], true), unix.Fstat(fds[1], &st)); err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, nil, "", err
	}
	return os.NewFile(uintptr(fds[0]), "reports"), os.NewFile(uintptr(fds[1]), "reports"), fmt.Sprintf("%d:%d", cmp.Or(fd, fds[1]), st.Ino), nil
}

// ReadNow returns what was written to a pipe so far.
func ReadNow(r *os.File) (all []byte) {
	_ = unix.SetNonblock(int(r.Fd()), true) // it does not fail for an open pipe
	for part := make([]byte, 1<<16); ; {
		n, err := unix.Read(int(r.Fd()), part)
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			return all
		}
		all = append(all, part[:max(n, 0)]...)
	}
}

// StartWorker starts the worker, with the pipe in its environment as variable. From then on signals
// no longer act on this process: they are queued for PassSignals.
func StartWorker(c Command, variable string) (*Worker, error) {
	if err := adoptOrphans(); err != nil {
		return nil, errors.Join(ErrStart, err)
	}
	r, w, name, err := ReportPipe(fdTerms)
	if err != nil {
		return nil, errors.Join(ErrStart, err)
	}
	defer func() { _ = w.Close() }() // the pipe ends with the last process that has inherited it
	// Catch signals before the worker runs: otherwise a Ctrl-Z or a SIGTERM right after its start
	// would stop or end only this process.
	sigs := make(chan os.Signal, 32)
	signal.Notify(sigs, notIgnored()...)
	pid, err := syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{
		Env: append(c.Env, variable+"="+name), Files: []uintptr{0, 1, 2, w.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		signal.Stop(sigs)
		_ = r.Close()
		return nil, err
	}
	signal.Notify(sigs) // all signals, also SIGHUP under nohup: the worker may reload on it
	wk := &Worker{
		PID: pid, r: r, signals: sigs, stopped: make(chan syscall.Signal, 1), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	go wk.reap()
	return wk, nil
}

// notIgnored returns the signals that nohup or a shell's & have not set to be ignored. The others
// must not be caught before the worker starts, because then it would not inherit that they are
// ignored. Of SIGTTIN and SIGTTOU Go does not know it.
func notIgnored() (sigs []os.Signal) {
	for n := syscall.Signal(1); n <= 64; n++ {
		if !signal.Ignored(n) && n != syscall.SIGTTIN && n != syscall.SIGTTOU {
			sigs = append(sigs, n)
		}
	}
	return sigs
}

// reap waits for all children. When there is none left, every process that the worker has started
// is dead: this process adopts the worker's orphans.
func (w *Worker) reap() {
	reap(w.PID, func(ws syscall.WaitStatus) {
		w.status = ws
		close(w.exited)
	}, func(sig syscall.Signal) { noteStop(w.stopped, sig) })
	close(w.gone)
}

// Follow calls read, which reads the pipe to its end: then no process holds it any more.
func (w *Worker) Follow(read func(io.Reader) error) error { return read(w.r) }

// Exited is closed when the worker itself has ended; Status is valid then.
func (w *Worker) Exited() <-chan struct{} { return w.exited }

// Stopped receives the signal with which the terminal has stopped the worker.
func (w *Worker) Stopped() <-chan syscall.Signal { return w.stopped }

// Status returns the status of the worker, once it has ended.
func (w *Worker) Status() syscall.WaitStatus { return w.status }

// PassSignals passes all signals on to the worker, except those that concern only this process.
// Once the worker has ended, a signal that ends programs calls after.
func (w *Worker) PassSignals(after func()) (end func()) {
	ours := []os.Signal{unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGTTIN, unix.SIGTTOU}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-w.signals:
				if sig, ok := s.(syscall.Signal); ok && !slices.Contains(ours, s) {
					w.pass(sig, after)
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(w.signals)
		close(done)
	}
}

func (w *Worker) pass(sig syscall.Signal, after func()) {
	ends := slices.Contains([]syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP}, sig)
	switch {
	case !closed(w.exited):
		_ = syscall.Kill(w.PID, sig)
	case ends: // the worker's pid may belong to another process by now
		after()
		return
	}
	switch {
	case sig == unix.SIGTSTP: // Ctrl-Z: a shell waits until this process stops, and fg sends SIGCONT to it alone
		_ = syscall.Kill(os.Getpid(), unix.SIGSTOP)
	case ends && sig != unix.SIGHUP && !closed(w.exited): // a worker that is stopped, by Ctrl-Z or by the terminal, would not handle the signal
		_ = syscall.Kill(w.PID, unix.SIGCONT)
	}
}

// KillRest kills what the worker has left, repeatedly: a single scan of a tree that grows misses
// new processes. It returns false when the limit has passed and a process is still alive.
func (w *Worker) KillRest(limit time.Duration) bool {
	t := tree{root: os.Getpid(), group: w.PID}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select { // mostly nothing is left, and this check is faster than a scan
	case <-w.gone:
	case <-time.After(time.Millisecond):
	}
	for p := (pauses{}); ; {
		select {
		case <-w.gone:
			return true
		default:
		}
		t.signal(unix.SIGKILL)
		pause := time.NewTimer(p.next())
		select {
		case <-w.gone:
		case <-pause.C:
		case <-deadline.C:
			return false
		}
		pause.Stop()
	}
}

// Left returns the living descendants of this process.
func (w *Worker) Left() []Living {
	return tree{root: os.Getpid(), group: w.PID}.living()
}
