package elector

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
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

// service is the serving of one term: its work, its renewals, its end. All of it
// belongs to the goroutine that runs the machine.
type service struct {
	e        *Elector
	ctx      context.Context // of Run or Campaign
	term     *Term
	done     chan outcome     // the work's end
	result   *outcome         // set when the work has returned
	renewed  chan renewal     // the end of the one renewal under way
	renewing bool             // one is under way
	touched  lease.Stamp      // when the newest renewal was sent, or else the claim, whatever came of it
	keeping  atomic.Bool      // the lease is wanted: no renewal goes out without
	next     *time.Timer      // for the next renewal
	longest  <-chan time.Time // fires after MaxTerm; nil: never
	released chan struct{}    // closed at the end: frees a panicking work
	closing  context.CancelFunc
	// closed when the election was announced: the release comes after it
	announced chan struct{}
	probing   chan struct{} // closed when the work's probe runner has returned
}

type outcome struct {
	err      error
	panicked bool
}

type renewal struct {
	sent  lease.Stamp
	tally quorum.Tally
}

// serve arms the deadline, becomes leader, and starts the work.
func (e *Elector) serve(ctx context.Context, term *Term, work Work) *service {
	s := &service{
		e: e, ctx: ctx, term: term, done: make(chan outcome, 1), renewed: make(chan renewal, 1),
		next: time.NewTimer(e.timing.RenewEvery), released: make(chan struct{}), touched: e.clock.Now(),
	}
	if e.cfg.MaxTerm > 0 {
		s.longest = time.After(e.cfg.MaxTerm)
	}
	s.keeping.Store(true)
	term.guard(e.timing.RetryEvery())
	e.term.Store(term)
	elected := e.event(EventElected, term, nil)
	e.become(RoleLeading, &elected, slog.Uint64("token", term.token))
	s.startProbe()
	s.announced = make(chan struct{})
	go s.work(work)
	runtime.Gosched() // the work first: the report's requests would take its turn on a small machine
	go func() {
		defer close(s.announced)
		e.voter.Announce(elected.encode(), quorum.WakeMessage{Elected: true, Token: term.token}.String())
	}()
	return s
}

// startProbe arms the work's probe: its start counts as the first success.
func (s *service) startProbe() {
	s.probing = make(chan struct{})
	if s.e.worker == nil {
		close(s.probing)
		s.closing = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.closing = cancel
	started := s.e.worker.Changed()
	go func() {
		defer close(s.probing)
		s.e.sayProbe(s.e.worker.RunArmed(ctx))
	}()
	select {
	case <-started:
	case <-s.probing: // left behind by the term before: it counts as unhealthy
	}
	s.term.armed.Store(true)
}

// work runs the work. A panic is not swallowed: the lock is given back, bounded
// by the call time-out, and the process ends as it would have.
func (s *service) work(work Work) {
	out := outcome{panicked: true}
	defer func() {
		s.done <- out
		if !out.panicked {
			return
		}
		s.e.log.Error("work panicked", "token", s.term.token, "stack", string(debug.Stack()))
		timer := time.NewTimer(s.e.timing.CallTimeout())
		defer timer.Stop()
		select {
		case <-s.released:
		case <-timer.C:
		}
	}()
	err := work(s.term.ctx, s.term)
	out = outcome{err: err}
}

// hold renews until the term ends, by whatever ends first.
func (s *service) hold() {
	for s.term.ctx.Err() == nil {
		sick := s.sick() // first the channel, then the question: no change falls in between
		if err := s.e.health(); err != nil {
			if !s.term.grant.Valid() { // we were stopped: the probes' silence is our own
				s.term.end(ReasonExpired, errExpired)
			}
			s.term.end(ReasonUnhealthy, err)
			return
		}
		select {
		case <-s.term.ctx.Done():
		case out := <-s.done:
			s.returned(out)
		case <-s.ctx.Done():
			s.term.end(ReasonShutdown, nil)
		case <-s.term.asked:
			s.term.end(s.term.request())
		case <-s.longest:
			if s.e.isPaused() {
				s.longest = time.After(s.e.timing.RenewEvery)
				continue
			}
			s.term.end(ReasonHandover, errMaxTerm)
		case <-sick.worker:
		case <-sick.candidate:
		case <-s.next.C:
			s.renew()
		case r := <-s.renewed:
			s.count(r)
		}
	}
}

// changes are the channels that tell of a change of health.
type changes struct{ candidate, worker <-chan struct{} }

func (s *service) sick() (c changes) {
	if s.e.candidate != nil {
		c.candidate = s.e.candidate.Changed()
	}
	if s.e.worker != nil {
		c.worker = s.e.worker.Changed()
	}
	return c
}

// renew is the only function that renews. It asks for health last before it
// sends, and for the time before that: a process that is stopped in between
// then loses lease, instead of renewing on an old verdict. The request runs
// beside the machine, which stays able to end the term at once. There is one at a
// time: count sets the timer again.
func (s *service) renew() {
	sent := s.e.clock.Now()
	left, _ := s.term.grant.Left()
	if left <= 0 {
		return // nothing is sent after the deadline: fit would say so, too, at each node's turn
	}
	if err := s.e.health(); err != nil {
		s.term.end(ReasonUnhealthy, err)
		return
	}
	s.renewing, s.touched = true, sent
	heir := s.e.heir(s.term)
	// Asked again at a node's turn. left has run on the monotonic clock, which stands
	// still while the machine sleeps: so the clock is asked too.
	fit := func() bool { return s.keeping.Load() && s.term.grant.Valid() && s.e.health() == nil }
	go func() { s.renewed <- renewal{sent: sent, tally: s.e.voter.Renew(left, s.term.token, heir, fit)} }()
}

// count takes the outcome of a renewal.
func (s *service) count(r renewal) {
	s.renewing = false
	e := s.e
	switch {
	case r.tally.Majority(quorum.Mine):
		if s.term.grant.Renew(r.sent) {
			e.countRenewal(func(c *RenewalStats) *uint64 { return &c.Confirmed })
			e.known.alive(r.tally)
			e.setTrouble(trouble{})
			e.renewedIn(r.tally)
		}
		elapsed, _ := e.clock.Since(r.sent)
		s.next.Reset(max(0, e.timing.RenewEvery-elapsed))
	case r.tally.Majority(quorum.Gone, quorum.Taken, quorum.Planted):
		e.countRenewal(func(c *RenewalStats) *uint64 { return &c.Refused })
		s.term.bereft.Store(bereaved(r.tally))
		s.term.end(ReasonLost, errGone)
	default: // unknown: ride it until the deadline
		e.countRenewal(func(c *RenewalStats) *uint64 { return &c.Unconfirmed })
		e.setTrouble(unconfirmed(r.tally))
		s.next.Reset(e.timing.RetryEvery())
	}
	if err := e.rival(); err != nil {
		s.term.end(ReasonLost, err)
	}
}

// returned takes the end of the work. Once the term has ended an error of the
// work is said, and no more: work that is stopped usually fails.
func (s *service) returned(out outcome) {
	s.result = &out
	if s.term.ctx.Err() != nil {
		if out.err != nil && !errors.Is(out.err, context.Canceled) && !errors.Is(out.err, s.term.Err()) {
			s.e.log.Warn("work failed while stopping", "token", s.term.token, "error", out.err)
		}
		return
	}
	switch {
	case out.panicked:
		s.term.end(ReasonPanicked, errGoexit)
	case out.err != nil:
		s.term.end(ReasonFailed, out.err)
	case s.term.stopped != nil: // Term.Resign said that the work has stopped
		s.term.end(s.term.request())
	default:
		s.term.end(ReasonFinished, nil)
	}
}

// drain waits for the work to return. After a voluntary end the lease is kept
// meanwhile, up to DrainTimeout; then, and in all other cases, it lapses by
// itself, and the overrun is reported.
func (s *service) drain() {
	stopKeeping := time.NewTimer(s.e.cfg.DrainTimeout)
	defer stopKeeping.Stop()
	// Who was stopped until after the lease's end has had no time to stop the work, nor
	// to see that somebody else did.
	_, toEnd := s.term.grant.Left()
	lapse := time.NewTimer(max(toEnd, s.e.timing.RetryEvery()))
	defer lapse.Stop()
	s.keeping.Store(s.ended().Reason.voluntary())
	for s.result == nil {
		var next <-chan time.Time
		if s.keeping.Load() {
			next = s.next.C
		}
		select {
		case out := <-s.done:
			s.returned(out)
		case <-stopKeeping.C:
			s.keeping.Store(false)
		case <-next:
			s.renew() // asks for health first, as ever
		case r := <-s.renewed:
			s.count(r)
		case <-lapse.C:
			if _, left := s.term.grant.Left(); left > 0 {
				lapse.Reset(left) // it was renewed
				continue
			}
			s.overrun()
		}
	}
	s.next.Stop()
}

func (s *service) overrun() {
	e := s.e
	e.log.Error("work is still running after its lease expired; another leader may already be running", "token", s.term.token)
	e.feed.publish(e.event(EventOverrun, s.term, s.ended()))
	if e.cfg.OnOverrun != nil {
		go e.cfg.OnOverrun(s.term)
	}
}
