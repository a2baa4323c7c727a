//go:build unix

package supervise

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector/supervisor"
)

// fdTerms is the worker's only file other than the standard ones: the pipe on which it reports its
// terms.
const fdTerms = 3

// Worker is a program that campaigns itself, with all its descendants. This process is its helper: it
// adopts and reaps all orphans, as process 1 of a container must. When the worker has ended, what it
// has left is killed.
type Worker struct {
	*Process
	Terms supervisor.Terms // that the worker has reported, and not released

	k       *keeper
	r       *os.File // reports reads it
	reports lines
	signals chan os.Signal // received by this process
	over    chan struct{}  // closed when run has ended
}

// StartWorker starts the worker, with env beside the environment of this process, and the pipe for
// its reports in it as supervisor.Variable. From then on signals no longer act on this process: they
// are queued for PassSignals.
func StartWorker(path string, argv []string) (*Worker, error) {
	if !adopts { // no process can know that everything that the worker has started is gone
		return nil, errors.Join(ErrStart, errors.New("mandate supervise works on Linux only"))
	}
	r, end, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(ErrStart, err)
	}
	defer func() { _ = end.Close() }() // the pipe ends with the last process that has inherited it
	growPipe(int(end.Fd()))
	name, err := nameOf(int(end.Fd()), fdTerms)
	p := newProcess(nil, forever)
	w := &Worker{Process: p, r: r, reports: lines{fd: int(r.Fd())}, signals: make(chan os.Signal, 32), over: make(chan struct{})}
	k, kerr := newKeeper(func(what string, id, value int) {
		if id != everything {
			p.note(what, value)
		}
	})
	if err := errors.Join(err, kerr, unix.SetNonblock(w.reports.fd, true)); err != nil {
		return nil, errors.Join(ErrStart, err)
	}
	w.k = k
	// Catch signals before the worker runs: otherwise a Ctrl-Z or a SIGTERM right after its start
	// would stop or end only this process.
	signal.Notify(w.signals, notIgnored()...)
	c := &command{id: 1, until: forever}
	if err := k.start(c, path, argv, &syscall.ProcAttr{
		Env: append(os.Environ(), supervisor.Variable+"="+name), Files: []uintptr{0, 1, 2, end.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}); err != nil {
		signal.Stop(w.signals)
		return nil, err
	}
	signal.Notify(w.signals) // all signals, also SIGHUP under nohup: the worker may reload on it
	p.PID = c.pid
	go w.run()
	return w, nil
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

// run follows the worker to its end, and then kills what it has left.
func (w *Worker) run() {
	defer close(w.over)
	for !w.HasExited() {
		w.step(forever)
	}
	w.k.killAll()
	limit := Now().Add(max(w.Terms.MaxLease(), time.Second)) // later all leases have lapsed and there is nothing to release
	for !w.k.childless && Until(limit) > 0 {
		w.step(limit)
	}
	limit = Now().Add(time.Second)
	for w.k.childless && !w.reports.ended && Until(limit) > 0 {
		w.step(limit)
	}
}

func (w *Worker) step(limit Instant) {
	fd := w.reports.fd
	if w.reports.ended {
		fd = -1
	}
	w.k.await(fd, limit)
	_ = w.Terms.Follow(bytes.NewReader(w.reports.read())) // it fails only if it can't read
	w.k.reap()
	w.k.act(Now())
}

// Await blocks until every process that the worker has started is known to be dead: no descendant is
// left, and no other process holds the pipe; or for as long as its longest lease, at least a second.
// gone is false if a descendant is left, closed if a process holds the pipe.
func (w *Worker) Await() (gone, closed bool) {
	<-w.over
	return w.k.childless, w.reports.ended
}

// Left returns the living descendants of this process, for people.
func (w *Worker) Left() string { return listed(descendants()) }

// PassSignals passes all signals on to the worker from now on, except those that concern only this
// process. Once the worker has ended, a signal that ends programs calls after.
func (w *Worker) PassSignals(after func()) {
	ours := []os.Signal{unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGTTIN, unix.SIGTTOU}
	go func() {
		for s := range w.signals {
			if sig, ok := s.(syscall.Signal); ok && !slices.Contains(ours, s) {
				w.pass(sig, after)
			}
		}
	}()
}

func (w *Worker) pass(sig syscall.Signal, after func()) {
	ends := slices.Contains([]syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP}, sig)
	if w.HasExited() { // the worker's pid may belong to another process by now
		if ends {
			after()
		}
		return
	}
	_ = syscall.Kill(w.PID, sig)
	switch {
	case sig == unix.SIGTSTP: // Ctrl-Z: a shell waits until this process stops, and fg sends SIGCONT to it alone
		_ = syscall.Kill(os.Getpid(), unix.SIGSTOP)
	case ends && sig != unix.SIGHUP: // a worker that is stopped, by Ctrl-Z or by the terminal, would not handle the signal
		_ = syscall.Kill(w.PID, unix.SIGCONT)
	}
}
