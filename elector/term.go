package elector

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/module"
)

// Work is what a leader does. It must return soon after ctx ends (within
// Config.StopMargin, or another leader may start beside it); context.Cause(ctx)
// is then an *Ended. Returning nil ends the term, and the candidate campaigns again
// after a tenth of the lease, longer if its last terms ended as soon, as it does after a
// RestartError; returning another error ends Run. A panic ends the process, as usual, but first
// the lock is released and the panic recorded in the history, which takes at most the time of two
// requests. Run does not return then.
type Work func(ctx context.Context, term *Term) error

// Term is one leadership, from its election to its end. Safe for concurrent use. A nil
// *Term stands for a candidate that does not lead: it is not valid, its token is 0, its
// context has ended with ErrNotLeader, and its other methods do nothing.
type Term struct {
	clock *lease.Clock
	token uint64
	grant *lease.Grant
	since time.Time
	begun lease.Stamp

	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once
	ended  atomic.Bool
	at     time.Time // when it ended; set before ended

	// Of the guard of its deadline, and to explain why it expires, if it does.
	timer       *time.Timer
	every       time.Duration                      // how often the guard reads the clock
	checkedAt   atomic.Int64                       // when it last did, counted from the begin of the term
	unconfirmed atomic.Pointer[unconfirmedRenewal] // nil while renewals succeed

	handTo     atomic.Pointer[handover] // the first request to end it; nil: none, or Close
	renews     atomic.Bool              // otherwise no renewal is sent
	lost       atomic.Bool              // a majority of the nodes does not hold the lock, or is about to be requested to release it
	returned   chan outcome             // gets the outcome of the work
	worked     atomic.Bool              // the work has returned
	over       chan struct{}            // closed when the work has returned and the lock was given back
	unreleased error                    // an ErrNotReleased, or nil; written before over is closed

	stopped    chan struct{} // of Campaign: closed by Close, when the work has stopped; nil for Run
	stopOnce   sync.Once
	closeLimit time.Duration // of Campaign: for how long Close waits although its context has ended, or delays a panic
	panicked   any           // what the work of a campaigned term panicked with; written before stopped is closed
}

type termKey struct{}

// made reports whether t is neither nil, which Elector.Term returns while the candidate does not
// lead, nor the zero value.
func (t *Term) made() bool { return t != nil && t.grant != nil }

func newTerm(parent context.Context, clock *lease.Clock, token uint64, grant *lease.Grant) *Term {
	t := &Term{
		clock: clock, token: token, grant: grant, since: time.Now(), begun: clock.Now(),
		returned: make(chan outcome, 1), over: make(chan struct{}),
	}
	t.renews.Store(true)
	// When parent ends, the state machine ends the term with its own reason
	// (shutdown), so the context inherits only the values.
	ctx := context.WithValue(context.WithoutCancel(parent), termKey{}, t)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// Token returns the term's fencing token, which is larger than that of every
// earlier term. Give it to whatever the work writes to, and have that refuse
// smaller ones: this is the only protection against a leader that was paused
// between checking Valid and writing.
func (t *Term) Token() uint64 {
	if t == nil {
		return 0
	}
	return t.token
}

// Valid reports whether the term still holds. It reads the clock at every call,
// does no I/O, allocates nothing and takes some 50 ns.
func (t *Term) Valid() bool { return t.made() && !t.ended.Load() && t.grant.Valid() }

// Deadline returns when the work must stop unless the lease is renewed before:
// now plus Left. It moves with every renewal, until the term has ended. Use it
// for display and to size a step of the work; for decisions use Valid or the
// context. time.Until(t.Deadline()) agrees with Valid, whatever happens to the
// wall clock.
func (t *Term) Deadline() time.Time {
	if !t.made() {
		return time.Time{}
	}
	if t.ended.Load() {
		return t.at
	}
	now := time.Now() // before the lease is read: a pause between the two makes the deadline early, never late
	left, _ := t.grant.Left()
	past, _ := t.grant.Past()
	return now.Add(left - past)
}

// Left returns how much of the lease the work may still use unless the lease is
// renewed before: zero from the deadline on, and once the term has ended. It
// reads the clock that Valid reads, so a step of the wall clock does not change
// it. No I/O, no allocation.
func (t *Term) Left() time.Duration {
	if !t.made() || t.ended.Load() {
		return 0
	}
	left, _ := t.grant.Left()
	return left
}

// Kept is Left for work that continues after a planned end of the term, such as a request that was
// under way: while the work stops the lease is renewed, for Config.DrainTimeout at most. It returns
// zero from the deadline of the newest renewal on, once the lock is being released, and once a
// majority of the nodes has shown that the lock is lost. No I/O, no allocation.
func (t *Term) Kept() time.Duration {
	if !t.made() || t.lost.Load() {
		return 0
	}
	left, _ := t.grant.Left()
	return left
}

// Since returns when the term began.
func (t *Term) Since() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.since
}

// Context returns a context that ends with the term; context.Cause then gives the *Ended.
func (t *Term) Context() context.Context {
	if !t.made() {
		return noTerm
	}
	return t.ctx
}

// noTerm is what Context returns for a nil term.
var noTerm = func() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(ErrNotLeader)
	return ctx
}()

// Done returns a channel that is closed when the term has ended and the work must stop.
func (t *Term) Done() <-chan struct{} { return t.Context().Done() }

// Err returns nil while the term lasts, then its *Ended.
func (t *Term) Err() error {
	if t.Context().Err() == nil {
		return nil
	}
	return context.Cause(t.Context())
}

// Resign ends the term, and returns at once. The lease is kept until the work has stopped (at most
// Config.DrainTimeout), and the candidate campaigns again after Config.Cooldown. Elector.Resign also waits for the release.
func (t *Term) Resign() { t.HandOver("", nil) }

// HandOver is Resign in favour of the candidate with that incarnation (Elector.Incarnation,
// CandidateStatus.Incarnation): for a quarter of a lease after the release no other candidate is elected.
// why is the detail in the log and the history; it may be nil. With an empty incarnation no candidate
// is preferred.
func (t *Term) HandOver(incarnation string, why error) {
	if t.made() {
		t.handTo.CompareAndSwap(nil, &handover{to: incarnation, why: why})
		t.end(t.requested()) // the work would learn of it a moment later through the state machine
	}
}

// Close ends a term of Campaign: it reports that the work has stopped, and
// returns when the lock is released or when ctx ends, which does not stop the release. Even if ctx has ended
// it waits for the time of two requests, so that a program that ends next leaves no lock behind. An
// ErrNotReleased means that the lock was not released, and has lapsed. Call it
// after every such term, also after one that was lost; further calls only wait.
//
// If Close itself is deferred (defer term.Close(ctx)), it also handles a panic of the work: it
// releases the lock, has the term recorded as panicked, and panics again with the same value. If
// another deferred function calls Close, it can't see the panic: the lock is released, and the term
// recorded as resigned. Without Close, and when another goroutine panics, the process ends as if it
// had been killed, and the lease lapses.
//
// A term of Run ends when its work returns: Close does nothing to it, and returns an
// error.
func (t *Term) Close(ctx context.Context) error {
	switch {
	case !t.made():
		return nil
	case t.stopped == nil:
		return errors.New("Close: a term of Run ends when the work returns; Resign requests that")
	}
	value := recover() // not nil if the work panicked and Close itself is deferred
	t.stopOnce.Do(func() {
		t.panicked = value
		close(t.stopped)
	})
	if value != nil { // as in Run, it must not wait for a whole lease
		t.overWithin(t.closeLimit)
		panic(value) // prints the stack of the first panic too: it has not been unwound
	}
	return t.awaitOver(ctx, t.closeLimit)
}

// awaitOver blocks until the term has ended and its lock was given back, or until ctx has ended and that time
// has passed. If both are the case it returns the outcome of the release: a select takes either of two
// ready channels, so the term is checked again.
func (t *Term) awaitOver(ctx context.Context, least time.Duration) error {
	began := time.Now()
	select {
	case <-t.over:
		return t.unreleased
	case <-ctx.Done():
	}
	if t.overWithin(least - time.Since(began)) {
		return t.unreleased
	}
	return ctx.Err()
}

// overWithin reports whether the term has ended and its lock was given back within that time.
func (t *Term) overWithin(limit time.Duration) bool {
	select {
	case <-t.over:
	case <-time.After(limit):
	}
	return t.isOver()
}

func (t *Term) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// handover is a request to end the term in favour of another candidate.
type handover struct {
	to  string // its incarnation
	why error
}

// requested returns the reason and the error of the end that was requested.
func (t *Term) requested() (Reason, error) {
	h := t.handTo.Load()
	switch {
	case h == nil:
		return ReasonResigned, nil
	case h.to == "":
		return ReasonResigned, h.why
	}
	return ReasonHandover, h.why
}

// end ends the term; only the first call counts. From here on Valid is
// false, whatever the clock shows. What stops a process, or its probes, that was suspended until its lease had
// ended is not why the term has ended.
func (t *Term) end(reason Reason, err error) {
	if (reason.voluntary() || reason == ReasonUnhealthy) && !t.grant.Valid() {
		t.expire()
	}
	now := time.Now()
	past, _ := t.grant.Past() // not within once: a simulated clock that blocks must not delay another call of end
	t.once.Do(func() {
		t.at = now.Add(-past)
		t.ended.Store(true)
		t.cancel(&Ended{Reason: reason, Err: err})
	})
}

// lostTo ends the term because another may have its lock.
func (t *Term) lostTo(why error) { t.end(ReasonLost, why) }

// how returns how the term has ended.
func (t *Term) how() *Ended {
	var ended *Ended
	if !errors.As(context.Cause(t.ctx), &ended) {
		panic("elector: a term without an end") // a bug in this package
	}
	return ended
}

// Ungranted is for package electortest alone, which makes terms for tests of a program's work: the result is a term that
// no election has granted, and a function that ends it for a reason. It is valid for the longest lease, and Close ends it
// like a term of Campaign. The receiver is not used.
func (*Term) Ungranted(_ module.Only, token uint64) (t *Term, end func(Reason)) {
	clock := lease.NewClock(nil)
	t = newTerm(context.Background(), clock, token, lease.NewGrant(clock, lease.Timing{Lease: lease.MaxLease}, clock.Now()))
	t.stopped = make(chan struct{})
	go func() {
		select {
		case <-t.stopped:
		case <-t.ctx.Done():
		}
		t.end(t.requested())
		close(t.over)
	}()
	return t, func(r Reason) { t.end(r, nil) }
}
