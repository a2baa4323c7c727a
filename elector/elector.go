package elector

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/setting"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
	"github.com/mandate-dev/mandate/health"
)

// Elector is one candidate in one election, while Run, Campaign or a term of
// Campaign is running. Make one with New: the zero value can't campaign. Safe for concurrent use.
type Elector struct{ machine }

// New makes a candidate. It does no I/O. The error lists every problem of the
// configuration.
func New(q *Quorum, cfg Config) (*Elector, error) {
	if q == nil {
		return nil, errNoQuorum
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	election, err := q.Election(cfg.Election)
	if err != nil {
		return nil, err
	}
	logged := &lines{}
	log := slog.New(background{cfg.Logger.Handler(), logged}).With("election", cfg.Election, "candidate", cfg.ID)
	e := &Elector{machine{candidate: candidate{
		cfg: cfg, timing: cfg.timing(), nodes: q.nodes, bus: q.bus, claimWanted: make(chan struct{}, 1), keys: &election.keys, incarnation: rand.Text()[:16],
		election: election, hostClock: lease.NewClock(nil), log: log, logged: logged, probes: probes{log: log}, counters: newCounters(log, q.nodes.Names(), cfg.Lease),
		published: published{state: state{role: roleIdle}}, supervisor: supervised.Inherit(),
	}}}
	if err := supervised.Problem(); err != nil {
		log.Warn("no supervisor; after a crash the lease lapses", "error", err)
	}
	election.own = &e.candidate
	e.voter = quorum.NewVoter(q.nodes, quorum.VoterConfig{
		Keys: *e.keys, Candidate: cfg.ID, Incarnation: e.incarnation, Advertise: cfg.Advertise,
		Lease: cfg.Lease, CallTimeout: e.timing.CallTimeout(), RequestEnded: e.counters.request, Unrecorded: e.logUnrecorded,
	})
	if cfg.Probe != nil {
		if e.probes.candidate, err = health.NewRunner(cfg.Probe, cfg.ProbeSettings); err != nil {
			return nil, setting.Join("Probe: ", err)
		}
	}
	if cfg.WorkProbe != nil {
		if e.probes.work, err = health.NewRunner(cfg.WorkProbe, cfg.WorkProbeSettings); err != nil {
			return nil, setting.Join("WorkProbe: ", err)
		}
	}
	return e, nil
}

// ID returns the candidate's name in the election.
func (e *Elector) ID() string { return e.cfg.ID }

// Election returns the election of this candidate. Its Observe also reports events that only
// this process knows.
func (e *Elector) Election() *Election { return e.election }

// Advertise returns Config.Advertise.
func (e *Elector) Advertise() string { return e.cfg.Advertise }

// Lease returns the lease that this candidate uses.
func (e *Elector) Lease() time.Duration { return e.cfg.Lease }

// Incarnation returns a random string, new with every Elector: it distinguishes this process
// from another one, or from an earlier life, with the same id.
func (e *Elector) Incarnation() string { return e.incarnation }

// Run campaigns in the election until ctx ends or the work fails: it claims,
// leads by calling work, rests if that is due, and campaigns again. When either the
// work or the term ends, the other is stopped, and Run waits for both: it never returns
// before the work has.
//
// Run returns nil after ctx has ended and the lock was released on a majority of the
// nodes. While too few nodes answer, Run retries the release until the lock has lapsed, for
// at most a lease and the time of two requests; the error is then an ErrNotReleased. Run returns the
// work's error, unchanged, unless that is a RestartError or the term had ended,
// if only by the clock (then the error is logged); an ErrPermanent when a permanent misconfiguration
// shows before the election has ever worked; ErrRefused when the Elector is in use; ErrClosed when the
// Quorum was closed. An error that comes before the end of ctx is logged, too.
func (e *Elector) Run(ctx context.Context, work Work) error {
	if work == nil {
		return errors.New("Run: the work is nil")
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	ctx, end := untilClosed(ctx, e.nodes)
	defer end()
	e.enter(ctx)
	defer e.leave()
	err := e.runError(ctx, e.run(ctx, work))
	if err != nil && ctx.Err() == nil && !e.ofMember { // the caller may not be waiting for it
		e.log.Error("run ended", "error", err)
	}
	return err
}

// begin checks that Run or Campaign may start, and marks the Elector as running.
func (e *Elector) begin(ctx context.Context) error {
	if e.nodes == nil {
		return errNoQuorum
	}
	if _, member := lease.BeginFrom(ctx); !member && protocol.OfGroup(e.cfg.Election) {
		return failed(ErrPermanent, "only members of a group of shards campaign in %s: choose a name without #", e.cfg.Election)
	}
	if !e.running.CompareAndSwap(false, true) {
		return newRefusal("already running")
	}
	e.done = e.nodes.Use()
	if err := checkOpen(e.nodes); err != nil {
		e.done()
		e.running.Store(false)
		return err
	}
	return nil
}

// Campaign blocks until this candidate leads, and returns its term: "leader for
// life", for programs that lead until they end. ctx bounds only the wait. The term lasts
// until Term.Close, or until it is lost. Stop the work when the term's context ends, and call
// Close in any case: only then is the lock released, and the Elector free for another
// Campaign. Closing the Quorum ends the term too.
//
//	term, err := e.Campaign(ctx)
//	if err != nil {
//		return err
//	}
//	defer term.Close(ctx)
//
// When ctx ends first, the error is ctx's error and, where that is known, why this candidate was not elected by then: an
// ErrNotLeader that names the leader, an ErrUnreachable, or what Check reports. Otherwise it is an ErrPermanent, ErrClosed,
// or ErrRefused while the Elector is in use.
func (e *Elector) Campaign(ctx context.Context) (*Term, error) { return e.elect(ctx, false) }

// TryCampaign is Campaign without a wait for the end of another leader: when a majority of the nodes answers that another
// candidate leads, which takes one request to each, the error is an ErrNotLeader. Only as long as nobody leads (too few
// nodes answer, or they abstain; several candidates claim at once; this one's probe fails) does it try again until ctx
// ends: give that a deadline, of a lease or more.
func (e *Elector) TryCampaign(ctx context.Context) (*Term, error) { return e.elect(ctx, true) }

func (e *Elector) elect(ctx context.Context, try bool) (*Term, error) {
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	e.enter(ctx)
	waiting, waited := untilClosed(ctx, e.nodes)
	defer waited()
	answered := e.memory.answeredAt
	term, err := e.campaign(waiting, try)
	if term == nil {
		defer e.leave()
		switch {
		case errors.Is(context.Cause(waiting), ErrClosed):
			return nil, ErrClosed
		case errors.Is(err, ErrPermanent):
			return nil, err
		}
		return nil, e.notElected(err, e.memory.answeredAt != answered)
	}
	term.stopped, term.closeLimit = make(chan struct{}), 2*e.timing.CallTimeout()
	e.start(term, func(context.Context, *Term) error {
		<-term.stopped
		return nil
	})
	go func() {
		defer close(term.over)
		defer e.leave()
		life, over := untilClosed(context.WithoutCancel(ctx), e.nodes)
		defer over()
		_ = e.lead(life) // the term itself knows how it ended
	}()
	return term, nil
}

// notElected adds to the end of a campaign's context, if that is why it ended, what was known by then.
func (e *Elector) notElected(ended error, answered bool) error {
	why := e.check()
	leader, led := e.LastLeader()
	switch {
	case answered && led && (why == nil || errors.Is(why, ErrUnreachable)): // who leads is known, although no other could
		why = failed(ErrNotLeader, "%s leads", leader.Candidate)
	case why != nil:
	case !answered:
		why = ErrUnreachable
	default:
		return ended
	}
	if ended == nil {
		return why
	}
	return fmt.Errorf("%w: %w", ended, why)
}

// IsLeader reports whether this candidate leads. It reads the clock at every call: no
// I/O, no allocation, some 50 ns. A process can be paused between this call and
// whatever it does next: only the token protects against that.
func (e *Elector) IsLeader() bool {
	return e.term.Load().Valid()
}

// LastLeader returns who led when this candidate last queried Redis: this candidate itself while
// it leads (then with LeaseLeft and Since), otherwise the leader that its newest claim or poll
// found, which is at most a lease ago while Run is running and Redis answers. It returns false when
// no candidate led, and before the first answer. No I/O. Election.Leader queries Redis, and
// Election.Observe follows every change.
func (e *Elector) LastLeader() (Leader, bool) {
	if t := e.validTerm(); t != nil {
		return Leader{
			Candidate: e.cfg.ID, Incarnation: e.incarnation, Advertise: e.cfg.Advertise, Token: t.Token(), LeaseLeft: t.Left(), Since: t.Since(),
		}, true
	}
	l := e.published.read().leader
	if l == nil || l.Incarnation == e.incarnation { // its own term has ended
		return Leader{}, false
	}
	return *l, true
}

// Term returns the term that this candidate serves, nil when it doesn't lead.
func (e *Elector) Term() *Term { return e.validTerm() }

// StandsBy is for package shard. It reports whether this candidate campaigns, and would receive at once that a leader has
// released its lock: a majority of the nodes has confirmed its subscription, or refuses it so that there
// is none to wait for. A leader that ends before another candidate stands by leaves the election without a leader for
// longer. No I/O.
func (e *Elector) StandsBy(module.Only) bool {
	w := e.standsBy.Load()
	return w != nil && w.Listens()
}

// ClaimNow is for package shard. It makes a candidate that waits for the end of another one's lease claim at once, and does nothing
// to any other: for a program that has learned in another way that the leader is gone. If it is not,
// the candidate has only made one more request to each node. It returns at once, and does no I/O.
func (e *Elector) ClaimNow(module.Only) { pubsub.Wake(e.claimWanted) }

// Resign calls Term.Resign for the term that this candidate serves, and blocks until its work has
// returned and the lock was released, or until ctx ends; an ErrNotReleased means that
// the lock was not released, and has lapsed. It returns nil at once when this candidate doesn't
// lead, and when it is called from inside the work with the work's context (it would wait for
// itself). If the work has not returned after Config.DrainTimeout, and at least Config.StopMargin, Resign returns an
// error: it may have been called from inside the work with another context. The candidate campaigns again after
// Config.Cooldown.
//
// For a term of Campaign only Term.Close reports that the work has stopped: Resign
// ends the term's context, and waits for that call.
func (e *Elector) Resign(ctx context.Context) error {
	t := e.term.Load()
	if t == nil {
		return nil
	}
	t.Resign()
	if TermOf(ctx) == t {
		return nil
	}
	limit := max(e.cfg.DrainTimeout, e.cfg.StopMargin)
	drained, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := t.awaitOver(drained, 0)
	switch {
	case ctx.Err() != nil || drained.Err() == nil:
		return err
	case !t.worked.Load():
		return fmt.Errorf("the work has not returned after %v: if it called Resign itself, it must pass its own context", limit)
	}
	return t.awaitOver(ctx, 0)
}

// Check returns nil if this candidate leads or could be elected now;
// otherwise what is wrong, that it rests after a term, or that the work of its term has not returned: it
// says what CandidateStatus.Able says in a roll call. Neither "not the leader" nor "no leader" is an error, so
// Check fits a readiness check of all replicas. No I/O.
func (e *Elector) Check() error {
	if err := e.check(); err != nil {
		return err
	}
	switch now, t := e.published.read(), e.term.Load(); {
	case now.role == roleResting:
		return fmt.Errorf("resting for another %v after its term (%s)", max(0, time.Until(now.restUntil)).Round(time.Millisecond), now.restWhy)
	case now.role == roleStopping && t != nil && !t.isOver():
		return errors.New("the work of an ended term has not returned yet")
	}
	return nil
}

// Stats returns what was counted since New. No I/O. Safe for concurrent use.
func (e *Elector) Stats() Stats {
	st := e.counters.read()
	st.LeaderUnknown, st.Paused = e.election.unknown.Load(), e.isPaused()
	st.Queued = e.nodes.Queued(e.timing.CallTimeout())
	st.Probe, st.WorkProbe = probeStatus(e.probes.candidate), probeStatus(e.probes.work)
	return st
}
