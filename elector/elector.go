package elector

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
	"github.com/mandate-dev/mandate/health"
)

// Work is what a leader does. It must return soon after ctx ends (within
// Config.StopMargin, or another leader may start beside it); context.Cause(ctx)
// is then an *Ended. Returning nil ends the term, and the candidate runs again
// after Config.RestartDelay; returning an error ends Run.
type Work func(ctx context.Context, term *Term) error

// Elector is one candidate in one election. Safe for concurrent use; it takes
// part while Run or Campaign does.
type Elector struct {
	cfg         Config
	timing      lease.Timing
	quorum      *Quorum
	election    *Election // the same as operators see it, with what this candidate adds
	keys        quorum.Keys
	incarnation string
	voter       *quorum.Voter
	clock       *lease.Clock
	candidate   *health.Runner // nil: always healthy
	worker      *health.Runner // nil: always healthy
	log         *slog.Logger
	feed        feed
	cards       *cards
	nudged      chan struct{} // claim now: the pause is over

	running    atomic.Bool
	deaf       atomic.Bool          // said that releases are not heard
	unrecorded atomic.Bool          // logged that the history takes no events
	term       atomic.Pointer[Term] // the newest term, also an ended one
	known      known                // of the campaigning goroutine only
	owed       <-chan error         // of the same: how a release ends that is repeated in the background; nil: none is
	// reported is closed when the end of the last term was announced: the next election is
	// announced after it. Of the campaigning goroutine, too.
	reported <-chan struct{}
	going    context.Context // of the same: ends when Run or Campaign's term does

	mu      sync.Mutex // of all below
	state   Role
	trouble trouble     // why this candidate can't take part right now
	paused  string      // the note of the pause that was said; "": not paused
	nodes   []nodeCount // by node
	renewed RenewalStats
}

var errNotMade = failed(nil, "this Elector was not made by New")

// trouble is an error and the key under which it is the same one as before: its
// text may change with every attempt.
type trouble struct {
	key   string
	err   error
	quiet bool // not to be led with, and not sure enough to be reported
}

// refuses tells whether a candidate with this trouble must not lead.
func (t trouble) refuses() bool { return t.err != nil || t.quiet }

// New makes a candidate. It does no I/O. The error lists every problem of the
// configuration.
func New(q *Quorum, cfg Config) (*Elector, error) {
	if q == nil {
		return nil, failed(nil, "New: the quorum is nil: make one with NewQuorum or Open")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	election, err := q.Election(cfg.Election)
	if err != nil {
		return nil, err
	}
	e := &Elector{
		cfg: cfg, timing: cfg.timing(), quorum: q, election: election, keys: election.keys,
		incarnation: rand.Text()[:16], clock: lease.NewClock(nil), state: RoleIdle,
		log: cfg.Logger.With("election", cfg.Election, "candidate", cfg.ID), nudged: make(chan struct{}, 1),
	}
	election.own = &ownCandidate{incarnation: e.incarnation, lease: cfg.Lease, events: &e.feed, term: e.Term}
	e.cards, e.nodes = newCards(e), make([]nodeCount, q.Size())
	e.voter = quorum.NewVoter(q.nodes, quorum.Seat{
		Keys: e.keys, Candidate: cfg.ID, Incarnation: e.incarnation, Advertise: cfg.Advertise,
		Lease: cfg.Lease, CallTimeout: e.timing.CallTimeout(), Heard: e.heardNode, Unrecorded: e.logUnrecorded,
	})
	if cfg.Probe != nil {
		if e.candidate, err = health.NewRunner(cfg.Probe, cfg.ProbeSettings); err != nil {
			return nil, fmt.Errorf("elector: Probe: %w", err)
		}
	}
	if cfg.WorkProbe != nil {
		if e.worker, err = health.NewRunner(cfg.WorkProbe, cfg.WorkProbeSettings); err != nil {
			return nil, fmt.Errorf("elector: WorkProbe: %w", err)
		}
	}
	return e, nil
}

// ID is the candidate's name in the election.
func (e *Elector) ID() string { return e.cfg.ID }

// Election is the election of this candidate. Its Observe also reports what only this
// process knows.
func (e *Elector) Election() *Election { return e.election }

// Advertise is where this candidate can be reached when it leads, as configured.
func (e *Elector) Advertise() string { return e.cfg.Advertise }

// Lease is the lease that this candidate uses.
func (e *Elector) Lease() time.Duration { return e.cfg.Lease }

// Incarnation is random, and new with every Elector: it tells this process from
// another one, or from an earlier life, under the same id.
func (e *Elector) Incarnation() string { return e.incarnation }

// Run takes part in the election until ctx ends or the work fails: it campaigns,
// leads by calling work, rests where that is due, and campaigns again. Whoever
// of work and leadership ends first ends the other, and Run awaits both: it
// never returns before the work has.
//
// Run returns nil after ctx has ended and the lock was released, on a majority of the
// nodes; while they are away it repeats the release until the lock has lapsed by
// itself, a lease and two requests' time at most: that is a *NotReleasedError. It returns the work's
// error, unchanged, when the work failed; an ErrPermanent when the election
// can't work before it ever did; ErrRunning when the Elector is in use.
func (e *Elector) Run(ctx context.Context, work Work) error {
	if e.election == nil {
		return errNotMade
	}
	if work == nil {
		return failed(nil, "Run: the work is nil")
	}
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	defer e.enter(ctx)()
	if err := e.run(ctx, work); err != nil {
		return err
	}
	return e.settleUp()
}

// Campaign blocks until this candidate leads, and returns its term: "leader for
// life", for programs that lead until they end. Stop the work when the term's
// context ends (it also ends when ctx does), then call Term.Resign: the lock is
// released only then, and the Elector is free for another Campaign.
//
// It returns ctx's error when ctx ends first, an ErrPermanent, or ErrRunning.
func (e *Elector) Campaign(ctx context.Context) (*Term, error) {
	if e.election == nil {
		return nil, errNotMade
	}
	if !e.running.CompareAndSwap(false, true) {
		return nil, ErrRunning
	}
	leave := e.enter(ctx)
	term, err := e.campaign(ctx)
	if err != nil {
		leave()
		e.running.Store(false)
		return nil, err
	}
	term.stopped = make(chan struct{})
	l := e.startTerm(ctx, term, func(context.Context, *Term) error {
		<-term.stopped
		return nil
	})
	go func() {
		defer close(term.over)
		defer e.running.Store(false)
		defer leave()
		_ = l.lead() // the term keeps how it ended
	}()
	return term, nil
}

// enter starts what accompanies taking part; the returned function ends it and
// waits for it.
func (e *Elector) enter(ctx context.Context) (leave func()) {
	if c := lease.ClockFrom(ctx); c != nil {
		e.clock = c
	}
	e.known.begun = e.clock.Now()
	probing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.owed, e.going = nil, probing
	var wg sync.WaitGroup
	if e.candidate != nil {
		wg.Go(func() { e.reportProbe(e.candidate.Run(probing)) })
	}
	wg.Go(func() { e.cards.run(probing) })
	return func() {
		cancel()
		wg.Wait()
		// A hung node must not hold up the caller; what is under way to it is
		// bounded by the call time-out, and harmless.
		e.voter.Settle(standby.FrontRowLead + e.timing.RetryEvery())
		e.become(RoleIdle, nil)
	}
}

// IsLeader tells whether this candidate leads, by the clock, at every call: no
// I/O, no allocation, some 50 ns. Between this answer and what you do with it
// a process can be paused: only the token protects against that.
func (e *Elector) IsLeader() bool {
	t := e.term.Load()
	return t != nil && t.Valid()
}

// Term is the term that this candidate serves, nil when it doesn't lead.
func (e *Elector) Term() *Term {
	if t := e.term.Load(); t != nil && t.Valid() {
		return t
	}
	return nil
}

// Resign ends the term that this candidate serves, and waits until its work has
// returned and the lock was released, or until ctx ends; a *NotReleasedError says that
// the lock was not released, and has lapsed. It returns nil at once when this candidate doesn't lead, and when it is called from inside the work
// with the work's context (it would wait for itself). The candidate runs again
// after Config.Cooldown.
//
// Of a term of Campaign only Term.Resign knows that the work has stopped: this
// ends the term's context, and waits for that call.
func (e *Elector) Resign(ctx context.Context) error {
	t := e.term.Load()
	if t == nil {
		return nil
	}
	t.ask()
	if inside, _ := ctx.Value(termKey{}).(*Term); inside == t {
		return nil
	}
	return t.awaitOver(ctx)
}

// Check tells whether this candidate is able to take part, and renewing if it
// leads: nil, or what is wrong. It fails neither for "not the leader" nor for
// "no leader", so it fits a readiness check of all replicas. No I/O.
func (e *Elector) Check() error {
	if e.election == nil {
		return errNotMade
	}
	e.mu.Lock()
	now, trouble := e.state, e.trouble
	e.mu.Unlock()
	if now == RoleIdle {
		return failed(nil, "not campaigning: Run is not running")
	}
	if trouble.err != nil {
		return trouble.err
	}
	if st := e.health(); st != nil {
		return failed(nil, "unhealthy: %w", st)
	}
	// A term is over a moment before the role says so: an elector that rests after its
	// Resign has returned is not one whose work still runs.
	if t := e.term.Load(); now == RoleStopping && t != nil && !t.grant.Valid() && !t.isOver() {
		return failed(nil, "the work of an ended term has not returned")
	}
	return nil
}

// setTrouble says a trouble once, and once that it is over.
func (e *Elector) setTrouble(now trouble) {
	e.mu.Lock()
	old := e.trouble
	e.trouble = now
	e.mu.Unlock()
	switch {
	case now.err != nil && now.key != old.key:
		e.log.Warn("cannot campaign", "error", now.err)
	case now.err == nil && old.err != nil:
		e.log.Info("can campaign again")
	}
}

// sayDeaf says once that a right is missing to hear of releases. Other trouble
// with a subscription passes, and shows in the requests too.
func (e *Elector) sayDeaf(err error) {
	if quorum.Permanent(err) && e.deaf.CompareAndSwap(false, true) {
		e.log.Warn("cannot subscribe to release notifications; falling back to lease expiry", "error", err)
	}
}

// logUnrecorded logs once that a node's history takes no events: without it nobody can
// look up later who led and why a term ended.
func (e *Elector) logUnrecorded(err error) {
	if e.unrecorded.CompareAndSwap(false, true) {
		e.log.Warn("cannot record history", "error", err, "key", e.keys.History)
	}
}
