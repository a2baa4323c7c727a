package elector

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

var errGoexit = errors.New("the work called runtime.Goexit")

// outcome is how the work ended.
type outcome struct {
	err      error
	panicked bool // or it called runtime.Goexit
	fatal    bool // it panicked: the process is about to end
}

// workRun is the work of one term, on a goroutine of its own.
type workRun struct {
	m        *machine
	term     *Term
	done     chan outcome  // gets the outcome of the work
	released chan struct{} // closed when the lock was released: a panic may then end the process
	reported chan struct{} // closed when the end of the term has been announced too
}

func (m *machine) newWorkRun(term *Term) workRun {
	return workRun{m: m, term: term, done: make(chan outcome, 1), released: make(chan struct{}), reported: make(chan struct{})}
}

// serve runs the work. A panic still ends the process, but first the lock is released and
// the panic recorded, both within bounds.
//
// This goroutine starts the announcement: on a host with one processor the work then runs
// first, and the requests of the announcement don't delay it.
func (r *workRun) serve(work Work, announce func()) {
	go announce()
	out := outcome{panicked: true}
	defer func() {
		value := recover()
		if value != nil {
			out.err, out.fatal = fmt.Errorf("panic: %v", value), true
		}
		r.done <- out
		if !out.panicked {
			return
		}
		r.m.log.Error("work panicked", "token", r.term.token, "error", out.err, "stack", string(debug.Stack()))
		r.awaitReport()
		if value != nil {
			panic(value) // prints the stack of the first panic too: it has not been unwound
		}
	}()
	out.err = errGoexit
	err := work(r.term.ctx, r.term)
	out = outcome{err: err}
}

// awaitReport delays the end of the process until the lock was released, and then until
// the nodes have recorded why: without the record the history reports the term as vanished,
// as if the process had been killed. Each wait takes at most the call time-out.
func (r *workRun) awaitReport() {
	limit := r.m.timing.CallTimeout()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.released:
	case <-timer.C:
		return
	}
	began := time.Now()
	timer.Reset(limit)
	select {
	case <-r.reported: // the requests have been started
		r.m.voter.WaitIdle(limit - time.Since(began))
	case <-timer.C:
	}
}
