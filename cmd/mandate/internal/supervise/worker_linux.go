package supervise

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fdTerms is the worker's file beside the standard ones: the pipe on which it reports its terms.
const fdTerms = 3

// Worker is a child of this process that leads by itself, with everything below it. All orphans
// are adopted and reaped, as process 1 of a container must.
type Worker struct {
	PID int
	r   *os.File

	signals chan os.Signal // to this process
	stopped chan syscall.Signal
	exited  chan struct{} // closed when the worker itself has ended
	status  syscall.WaitStatus
	gone    chan struct{} // closed when this process has no child left
}

// StartWorker starts it, with the pipe in its environment under that name. From then on this process takes no signal
// itself: they wait for PassSignals.
func StartWorker(c Command, variable string) (*Worker, error) {
	if err := adoptOrphans(); err != nil {
		return nil, errors.Join(ErrStart, err)
	}
	r, w, err := reportPipe()
	if err != nil {
		return nil, errors.Join(ErrStart, err)
	}
	defer func() { _ = w.Close() }() // it ends with the last process that has inherited it
	// Before the worker runs: a Ctrl-Z or a SIGTERM right after its start would stop or end this process alone.
	sigs := make(chan os.Signal, 32)
	signal.Notify(sigs, notIgnored()...)
	pid, err := syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{
		Env: append(c.Env, variable+"="+pipeName(w, fdTerms)), Files: []uintptr{0, 1, 2, w.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		signal.Stop(sigs)
		_ = r.Close()
		return nil, err
	}
	signal.Notify(sigs) // under nohup, too, a SIGHUP is for a worker that reloads by it
	wk := &Worker{
		PID: pid, r: r, signals: sigs, stopped: make(chan syscall.Signal, 1), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	go wk.reap()
	return wk, nil
}

// notIgnored are the signals that nohup or a shell's & have not ignored: the worker inherits that of those only which
// this process does not catch.
func notIgnored() (sigs []os.Signal) {
	for n := syscall.Signal(1); n <= 64; n++ {
		if !signal.Ignored(n) {
			sigs = append(sigs, n)
		}
	}
	return sigs
}

// reap waits for all children. That there is none proves that nothing lives which the worker has
// started: this process adopts what is left of it.
func (w *Worker) reap() {
	reap(w.PID, func(ws syscall.WaitStatus) {
		w.status = ws
		close(w.exited)
	}, func(sig syscall.Signal) { noteStop(w.stopped, sig) })
	close(w.gone)
}

// Follow has the pipe read to its end: no process holds it any more.
func (w *Worker) Follow(read func(io.Reader) error) error { return read(w.r) }

// Exited is closed when the worker itself has ended; Status then has how.
func (w *Worker) Exited() <-chan struct{} { return w.exited }

// Stopped receives the signal by which the terminal has stopped the worker.
func (w *Worker) Stopped() <-chan syscall.Signal { return w.stopped }

// Status is that of the worker, once it has ended.
func (w *Worker) Status() syscall.WaitStatus { return w.status }

// PassSignals passes all signals on to the worker, but for those that are about this process
// alone. One that ends programs calls after, once the worker has ended.
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
	case ends: // the worker's number may be another's
		after()
		return
	}
	switch {
	case sig == unix.SIGTSTP: // Ctrl-Z: a shell waits until this process stops, and fg sends SIGCONT to it alone
		_ = syscall.Kill(os.Getpid(), unix.SIGSTOP)
	case ends && sig != unix.SIGHUP && !closed(w.exited): // a worker that Ctrl-Z or a read from the terminal has stopped would not end
		_ = syscall.Kill(w.PID, unix.SIGCONT)
	}
}

// KillRest kills what the worker has left, again and again: a tree that grows is never seen whole
// by one scan. It returns false when the limit has passed and something lives.
func (w *Worker) KillRest(limit time.Duration) bool {
	t := tree{root: os.Getpid(), start: identify(os.Getpid()), group: w.PID}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select { // mostly nothing is left, and a scan takes longer than to find that out
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

// Left are the living processes below this one.
func (w *Worker) Left() []Living {
	return tree{root: os.Getpid(), start: identify(os.Getpid()), group: w.PID}.living()
}
