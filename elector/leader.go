package elector

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

var (
	errExpired = errors.New("no renewal succeeded in time")
	errGoexit  = errors.New("elector: the work panicked, or called runtime.Goexit")
	errMaxTerm = errors.New("the maximum length of a term has been reached")
	errGone    = errors.New("a majority of the nodes no longer holds the lock for this term")
)

// leadership is one term, from top to bottom: start the work, renew the lease (hold),
// stop the work (drain), release the lock. Its fields belong to the goroutine that runs
// the machine, but for keepLease, which renewals ask when a node's turn comes.
type leadership struct {
	e               *Elector
	ctx             context.Context // of Run or Campaign
	term            *Term
	workDone        chan outcome     // the work's end
	outcome         *outcome         // set when the work has returned
	renewed         chan renewal     // the end of the one renewal under way
	renewalInFlight bool             // one is under way
	lastSent        lease.Stamp      // when the newest renewal was sent, or else the claim, whatever came of it
	keepLease       atomic.Bool      // the lease is wanted: no renewal goes out without
	renewTimer      *time.Timer      // for the next renewal
	maxTerm         <-chan time.Time // fires after MaxTerm; nil: never
	released        chan struct{}    // closed at the end: frees a panicking work
	stopProbe       context.CancelFunc
	reported        chan struct{} // closed when the end was announced, too
	announced       chan struct{} // closed when the election was announced: the report of the end comes after it
	probeDone       chan struct{} // closed when the work's probe runner has returned
}

type outcome struct {
	err      error
	panicked bool
}

type renewal struct {
	sent  lease.Stamp
	tally quorum.Tally
}

// startTerm arms the deadline, becomes leader, and starts the work. ctx is that of Run or
// Campaign: its end is the term's.
func (e *Elector) startTerm(ctx context.Context, term *Term, work Work) *leadership {
	l := &leadership{
		e: e, ctx: ctx, term: term, workDone: make(chan outcome, 1), renewed: make(chan renewal, 1),
		renewTimer: time.NewTimer(e.timing.RenewEvery), released: make(chan struct{}), lastSent: e.clock.Now(),
		announced: make(chan struct{}), reported: make(chan struct{}),
	}
	if e.cfg.MaxTerm > 0 {
		l.maxTerm = time.After(e.cfg.MaxTerm)
	}
	l.keepLease.Store(true)
	term.guard(e.timing.RetryEvery())
	e.term.Store(term)
	elected := e.event(EventElected, term, nil)
	e.become(RoleLeading, &elected, slog.Uint64("token", term.token))
	l.startProbe()
	before := e.reported
	e.reported = l.reported
	go l.serve(work, func() {
		defer close(l.announced)
		if before != nil {
			<-before
		}
		e.voter.Announce(elected.encode(), quorum.WakeMessage{Elected: true, Token: term.token}.String())
	})
	return l
}

// serve runs the work. A panic is not swallowed: the lock is given back, bounded
// by the call time-out, and the process ends as it would have.
//
// It is this goroutine that starts the announcement: on a machine with one processor the
// work then runs first, and the requests of the announcement don't delay it.
func (l *leadership) serve(work Work, announce func()) {
	go announce()
	out := outcome{panicked: true}
	defer func() {
		l.workDone <- out
		if !out.panicked {
			return
		}
		l.e.log.Error("work panicked", "token", l.term.token, "stack", string(debug.Stack()))
		timer := time.NewTimer(l.e.timing.CallTimeout())
		defer timer.Stop()
		select {
		case <-l.released:
		case <-timer.C:
		}
	}()
	err := work(l.term.ctx, l.term)
	out = outcome{err: err}
}

// lead serves a term to the release of the lock. It returns after the work has.
func (l *leadership) lead() *Ended {
	e, term := l.e, l.term
	l.hold()
	ended := l.ended()
	ev := e.event(EventStopping, term, ended)
	attrs := []slog.Attr{
		slog.Uint64("token", term.token), slog.String("reason", string(ended.Reason)),
		slog.Duration("led_for", time.Since(term.since).Round(time.Millisecond)),
	}
	if ended.Err != nil {
		attrs = append(attrs, slog.String("detail", ended.detail()))
	}
	e.become(RoleStopping, &ev, attrs...)
	l.drain()
	l.release(ended)
	return ended
}

// hold renews until the term ends, by whatever ends first.
func (l *leadership) hold() {
	for l.term.ctx.Err() == nil {
		changed := l.healthChanges() // first the channel, then the question: no change falls in between
		if err := l.e.health(); err != nil {
			if !l.term.grant.Valid() { // we were stopped: the probes' silence is our own
				l.term.end(ReasonExpired, errExpired)
			}
			l.term.end(ReasonUnhealthy, err)
			return
		}
		select {
		case <-l.term.ctx.Done():
		case out := <-l.workDone:
			l.returned(out)
		case <-l.ctx.Done():
			l.term.end(ReasonShutdown, shutdownCause(l.ctx))
		case <-l.term.asked:
			l.term.end(l.term.request())
		case <-l.maxTerm:
			if l.e.isPaused() {
				l.maxTerm = time.After(l.e.timing.RenewEvery)
				continue
			}
			l.term.end(ReasonHandover, errMaxTerm)
		case <-changed.worker:
		case <-changed.candidate:
		case <-l.renewTimer.C:
			l.renew()
		case r := <-l.renewed:
			l.count(r)
		}
	}
}

// renew is the only function that renews. It asks for health last before it
// sends, and for the time before that: a process that is stopped in between
// then loses lease, instead of renewing on an old verdict. The request runs
// beside the machine, which stays able to end the term at once. There is one at a
// time: count sets the timer again.
func (l *leadership) renew() {
	sent := l.e.clock.Now()
	left, _ := l.term.grant.Left()
	if left <= 0 {
		return // nothing is sent after the deadline: fit would say so, too, at each node's turn
	}
	if err := l.e.health(); err != nil {
		l.term.end(ReasonUnhealthy, err)
		return
	}
	l.renewalInFlight, l.lastSent = true, sent
	heir := l.e.heir(l.term)
	// Asked again at a node's turn. left has run on the monotonic clock, which stands
	// still while the machine sleeps: so the clock is asked too.
	fit := func() bool { return l.keepLease.Load() && l.term.grant.Valid() && l.e.health() == nil }
	go func() { l.renewed <- renewal{sent: sent, tally: l.e.voter.Renew(left, l.term.token, heir, fit)} }()
}

// count takes the outcome of a renewal.
func (l *leadership) count(r renewal) {
	l.renewalInFlight = false
	e := l.e
	switch {
	case r.tally.Majority(quorum.Mine):
		if l.term.grant.Renew(r.sent) {
			e.countRenewal(func(c *RenewalStats) *uint64 { return &c.Confirmed })
			e.known.alive(r.tally)
			e.setTrouble(trouble{})
			e.renewedIn(r.tally)
		}
		elapsed, _ := e.clock.Since(r.sent)
		l.renewTimer.Reset(max(0, e.timing.RenewEvery-elapsed))
	case r.tally.Majority(quorum.Gone, quorum.Taken, quorum.Planted):
		e.countRenewal(func(c *RenewalStats) *uint64 { return &c.Refused })
		l.term.bereft.Store(bereaved(r.tally))
		l.term.end(ReasonLost, errGone)
	default: // unknown: ride it until the deadline
		e.countRenewal(func(c *RenewalStats) *uint64 { return &c.Unconfirmed })
		e.setTrouble(unconfirmed(r.tally))
		l.renewTimer.Reset(e.timing.RetryEvery())
	}
	if err := e.rival(); err != nil {
		l.term.end(ReasonLost, err)
	}
}

// returned takes the end of the work. Once the term has ended an error of the
// work is said, and no more: work that is stopped usually fails.
func (l *leadership) returned(out outcome) {
	l.outcome = &out
	if l.term.ctx.Err() != nil {
		if out.err != nil && !errors.Is(out.err, context.Canceled) && !errors.Is(out.err, l.term.Err()) {
			l.e.log.Warn("work failed while stopping", "token", l.term.token, "error", out.err)
		}
		return
	}
	switch {
	case out.panicked:
		l.term.end(ReasonPanicked, errGoexit)
	case out.err != nil:
		l.term.end(ReasonFailed, out.err)
	case l.term.stopped != nil: // Term.Resign said that the work has stopped
		l.term.end(l.term.request())
	default:
		l.term.end(ReasonFinished, nil)
	}
}

// drain waits for the work to return. After a voluntary end the lease is kept
// meanwhile, up to DrainTimeout; then, and in all other cases, it lapses by
// itself, and the overrun is reported.
func (l *leadership) drain() {
	stopKeeping := time.NewTimer(l.e.cfg.DrainTimeout)
	defer stopKeeping.Stop()
	// Who was stopped until after the lease's end has had no time to stop the work, nor
	// to see that somebody else did.
	_, toEnd := l.term.grant.Left()
	lapse := time.NewTimer(max(toEnd, l.e.timing.RetryEvery()))
	defer lapse.Stop()
	l.keepLease.Store(l.ended().Reason.voluntary())
	for l.outcome == nil {
		var next <-chan time.Time
		if l.keepLease.Load() {
			next = l.renewTimer.C
		}
		select {
		case out := <-l.workDone:
			l.returned(out)
		case <-stopKeeping.C:
			l.keepLease.Store(false)
		case <-next:
			l.renew() // asks for health first, as ever
		case r := <-l.renewed:
			l.count(r)
		case <-lapse.C:
			if _, left := l.term.grant.Left(); left > 0 {
				lapse.Reset(left) // it was renewed
				continue
			}
			l.overrun()
		}
	}
	l.renewTimer.Stop()
}

func (l *leadership) overrun() {
	e := l.e
	e.log.Error("work is still running after its lease expired; another leader may already be running", "token", l.term.token)
	e.feed.publish(e.event(EventOverrun, l.term, l.ended()))
	if e.cfg.OnOverrun != nil {
		go e.cfg.OnOverrun(l.term)
	}
}

// ended is how the term ended. A panic of the work is told as such.
func (l *leadership) ended() *Ended {
	var ended *Ended
	if !errors.As(context.Cause(l.term.ctx), &ended) {
		panic("elector: a term without an end") // a bug of ours
	}
	return ended
}
