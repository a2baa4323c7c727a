package elector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// Work is what a leader does. It must return soon after ctx ends (within
// Config.StopMargin, or another leader may start beside it); context.Cause(ctx)
// is then an *Ended. Returning nil ends the term, and the candidate runs again
// after Config.RestartDelay, as it does after a RestartError; returning another error ends
// Run, or with Config.RetryFailed the term. A panic ends the process, as
// ever, after the lock was released and the panic recorded in the history: within two
// requests' time. Run does not return then.
type Work func(ctx context.Context, term *Term) error

// Term is one leadership, from its election to its end. Safe for concurrent use. A nil
// *Term is that of a candidate which does not lead: it is not valid, its token is 0, its
// context has ended with ErrNotLeader, and its methods do nothing else.
type Term struct {
	clock *lease.Clock
	token uint64
	grant *lease.Grant
	since time.Time
	begun lease.Stamp

	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  atomic.Bool
	at     time.Time // when it ended; set before ended
	once   sync.Once
	expiry expiryRecord

	warms   bool          // a requested end waits until the next leader is warm: the machine ends the term then
	asked   chan struct{} // closed by the first Resign, or request to hand over
	askOnce sync.Once
	handTo  atomic.Pointer[handover] // set before asked is closed; nil: to no one in particular
	over    chan struct{}            // closed when the work has returned and the lock was given back
	// unreleased is an ErrNotReleased, or nil; written before over is closed.
	unreleased error
	lost       atomic.Bool // its lock: a majority of the nodes does not hold it, or is about to be asked to release it
	bereft     atomic.Bool // it ended because a majority of the nodes had lost its lock and all else

	stopped    chan struct{} // of Campaign: closed by Close, the work has stopped; nil for Run
	stopOnce   sync.Once
	panicLimit time.Duration // of Campaign: for how long Close holds up a panic
	panicked   any           // what the work of a campaigned term panicked with; written before stopped is closed
}

type termKey struct{}

// made distinguishes a term from a nil one, which Elector.Term returns to a follower, and from a
// zero one.
func (t *Term) made() bool { return t != nil && t.grant != nil }

func newTerm(parent context.Context, clock *lease.Clock, token uint64, grant *lease.Grant) *Term {
	t := &Term{
		clock: clock, token: token, grant: grant, since: time.Now(), begun: clock.Now(),
		asked: make(chan struct{}), over: make(chan struct{}),
	}
	// The parent's end has its own reason (shutdown), which the machine
	// gives: so the context only inherits the values.
	ctx := context.WithValue(context.WithoutCancel(parent), termKey{}, t)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// Token is the term's fencing token: larger than that of every earlier term.
// Give it to whatever the work writes to, and have it refuse smaller ones: it
// is the only protection against a leader that was paused between checking Valid
// and writing.
func (t *Term) Token() uint64 {
	if t == nil {
		return 0
	}
	return t.token
}

// Valid reports whether the term still holds, by the clock, at every call. It
// does no I/O, allocates nothing and takes some 50 ns.
func (t *Term) Valid() bool { return t.made() && !t.ended.Load() && t.grant.Valid() }

// Deadline is when the work must stop unless the lease is renewed before: now
// plus Left. It moves with every renewal, and never again once the term has
// ended. For people and for sizing a step of the work: decisions use Valid or
// the context. time.Until(t.Deadline()) counts as Valid does, whatever happens
// to the wall clock.
func (t *Term) Deadline() time.Time {
	if !t.made() {
		return time.Time{}
	}
	if t.ended.Load() {
		return t.at
	}
	return t.grant.Deadline()
}

// Left is how much of the lease the work may still use unless the lease is
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

// Kept is Left for what goes on after a planned end of the term, such as a request that was
// under way: while the work stops the lease is renewed, for Config.DrainTimeout at most. Zero
// from the deadline of the newest renewal on, when the lock is released, and once a majority of
// the nodes has shown that it is lost. No I/O, no allocation.
func (t *Term) Kept() time.Duration {
	if !t.made() || t.lost.Load() {
		return 0
	}
	left, _ := t.grant.Left()
	return left
}

// Since is when the term began.
func (t *Term) Since() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.since
}

// Context ends with the term; context.Cause gives the *Ended.
func (t *Term) Context() context.Context {
	if !t.made() {
		return noTerm
	}
	return t.ctx
}

// noTerm is the context of no term.
var noTerm = func() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(ErrNotLeader)
	return ctx
}()

// Done is closed when the term has ended and the work must stop.
func (t *Term) Done() <-chan struct{} { return t.Context().Done() }

// Err is nil while the term holds, then its *Ended.
func (t *Term) Err() error {
	if t.Context().Err() == nil {
		return nil
	}
	return context.Cause(t.Context())
}

// Resign ends the term, with Config.Warm once the next leader is warm, and returns at once: the
// lease is kept until the work has stopped (at most Config.DrainTimeout), and the candidate
// campaigns again after Config.Cooldown. Elector.Resign also waits for the release.
func (t *Term) Resign() {
	if t.made() {
		t.ask()
	}
}

// Close ends a term of Campaign or TryCampaign: it reports that the work has stopped, and
// returns when the lock is released or when ctx ends, which does not stop the release. An
// ErrNotReleased means that the lock was not released, and has lapsed. Call it
// after every such term, also after one that was lost; further calls only wait.
//
// Deferred itself (defer term.Close(ctx)), it runs when the work panics, too: it releases the lock, has the
// term recorded as panicked, and panics on with the same value. Called by a deferred
// function of yours it can't see the panic: the lock is released, and the term recorded as
// resigned. Without it, and when another goroutine panics, the process ends as if it had
// been killed, and the lease lapses.
//
// A term of Run has ended when its work has returned: Close does nothing to it, and
// returns an error.
func (t *Term) Close(ctx context.Context) error {
	switch {
	case !t.made():
		return nil
	case t.stopped == nil:
		return failed(nil, "Close: a term of Run ends when the work returns; Resign requests that")
	}
	value := recover() // of a work that panicked, where Close itself is deferred
	if value != nil {  // as Run does: the process must not outlive its panic by a lease
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.panicLimit)
		defer cancel()
	}
	t.stopOnce.Do(func() {
		t.panicked = value
		close(t.stopped)
	})
	err := t.awaitOver(ctx)
	if value != nil {
		panic(value) // with the stack of the first one, which has not been left
	}
	return err
}

// awaitOver waits until the term has ended, also its release. A term that has ended is not
// reported as one that may not be, whatever has become of ctx: of two channels that
// are ready a select takes any.
func (t *Term) awaitOver(ctx context.Context) error {
	select {
	case <-t.over:
		return t.unreleased
	case <-ctx.Done():
	}
	if t.isOver() {
		return t.unreleased
	}
	return ctx.Err()
}

func (t *Term) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

func (t *Term) ask() { t.request(nil) }

// handover is a request to end the term in favour of another candidate.
type handover struct {
	to   string // its incarnation
	why  error
	cold bool // nobody goes first, not even by the succession: who should could not get ready
}

func (t *Term) hand(h handover) { t.request(&h) }

// request requests the end of the term; the first request counts. Where no candidate has to get warm it is the end: the
// work learns of it from here, and not a moment later from the state machine.
func (t *Term) request(h *handover) {
	t.askOnce.Do(func() {
		t.handTo.Store(h)
		close(t.asked)
	})
	if !t.warms {
		t.end(t.requested())
	}
}

// requested is the end that was requested.
func (t *Term) requested() (Reason, error) {
	if h := t.handTo.Load(); h != nil {
		if h.to == "" {
			return ReasonResigned, h.why
		}
		return ReasonHandover, h.why
	}
	return ReasonResigned, nil
}

// end ends the term; the first call gives the reason. From here on Valid is
// false, whatever the clock shows.
func (t *Term) end(reason Reason, err error) {
	deadline := t.grant.Deadline() // not under the lock of once: a candidate that stands still at its clock must hold up no other end
	t.once.Do(func() {
		t.at = time.Now()
		if deadline.Before(t.at) {
			t.at = deadline
		}
		t.ended.Store(true)
		t.cancel(&Ended{Reason: reason, Err: err})
	})
}
