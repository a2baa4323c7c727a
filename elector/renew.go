package elector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

var errGone = errors.New("a majority of the nodes no longer holds the lock for this term")

// renewer keeps the lease of one term. While the term lasts, a renewal that only extends the lease
// does not involve the state machine: waking its goroutine twice takes longer than the rest of the
// renewal. The state machine handles a renewal with any other outcome, and all renewals after the
// end of the term.
type renewer struct {
	m      *machine
	term   *Term
	wanted atomic.Bool        // the lease is to be kept: otherwise no renewal is sent
	due    chan struct{}      // signaled when the state machine has to renew
	ended  chan *endedRenewal // gets the outcome of a renewal that the state machine has to count
	task   task               // fires when the next renewal is due

	// fire and take never wait for mu: the state machine holds it while it renews or counts, and a log
	// handler may block it. They then leave the work to the state machine, through due and ended.
	mu       sync.Mutex   // of all below
	inFlight bool         // a renewal is under way
	repeats  bool         // that renewal repeats the one before, to regain a node
	retries  bool         // no renewal was confirmed since one whose connection was lost
	lastSent *lease.Stamp // when the newest renewal was sent, whatever its outcome; before the first, when the term began
}

// endedRenewal is the outcome of one renewal.
type endedRenewal struct {
	sent  *lease.Stamp // may be shared by many renewals
	tally quorum.Tally
	took  time.Duration
}

func (m *machine) newRenewer(term *Term) *renewer {
	r := &renewer{m: m, term: term, due: make(chan struct{}, 1), ended: make(chan *endedRenewal, 1), lastSent: m.clock.Anchor()}
	r.task.fire = r.fire
	r.wanted.Store(true)
	return r
}

// begin schedules the first renewal, counted from when the claim was sent. That may be long ago if
// the claim waited for a connection: counted from the begin of the term, the renewal could come too
// late for the lease.
func (r *renewer) begin() {
	m := r.m
	age, _ := r.term.grant.Age()
	r.dueIn(m.nodes.AlignToMoment(max(0, m.timing.RenewEvery()-age), m.timing.RenewEvery()))
}

func (r *renewer) dueIn(d time.Duration) { r.m.renewals.add(&r.task, d, oneMoment, oneMoment) }

// fire sends a due renewal, on a goroutine that does so for many elections. at was read a moment
// before, from this host's clock.
func (r *renewer) fire(at *lease.Stamp) {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		if !r.term.ended.Load() {
			if m := r.m; !m.clock.SameAs(&m.renewals.clock) {
				at = m.clock.Anchor()
			}
			r.renew(at)
			return
		}
	}
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// take handles the outcome of a renewal. It runs on the goroutine of the call that carried the
// renewal, which serves other elections too, so it must not block.
func (r *renewer) take(of endedRenewal) {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		if !r.term.ended.Load() && r.quiet(&of) {
			r.count(&of)
			return
		}
	}
	late := of // a copy, so that nothing is allocated in the case above
	late.tally = of.tally.Clone()
	r.ended <- &late
}

// quiet reports whether a renewal only extends the lease: count then logs and publishes nothing, and
// does not end the term.
func (r *renewer) quiet(of *endedRenewal) bool {
	for _, a := range of.tally.Answers {
		if a.Status != protocol.Unknown && (a.Status != protocol.Renewed || a.Note != "" || a.Holder != "") {
			return false
		}
	}
	m := r.m
	return of.tally.Majority(protocol.Renewed) && r.term.grant.Valid() && !r.repeats && m.calm() &&
		m.voter.Advertised() == m.advertised && !m.voter.Regainable() && len(m.voter.Rivals()) == 0
}

// renewNow renews on the state machine's goroutine.
func (r *renewer) renewNow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew(r.m.clock.Anchor())
}

// countNow counts a renewal on the state machine's goroutine.
func (r *renewer) countNow(of *endedRenewal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(of)
}

// renew sends one renewal; no other function sends any. It reads the time to the deadline first, and
// checks health last: a process that is suspended in between loses that time, instead of
// renewing on an outdated probe result. The requests run in the background, so that the state
// machine can end the term at any time. Only one renewal is under way at a time: count schedules the
// next one. The caller holds mu.
func (r *renewer) renew(sent *lease.Stamp) {
	m := r.m
	left, _ := r.term.grant.Left()
	if left <= 0 {
		return // nothing is sent after the deadline: fit would prevent it too, for each node
	}
	if err := m.probes.failing(); err != nil {
		r.term.end(ReasonUnhealthy, err)
		return
	}
	r.inFlight, r.lastSent = true, sent
	heir := m.heir(r.term)
	// fit is called again just before the request to a node is sent. left runs on the monotonic clock,
	// which stands still while the host is suspended, so fit reads the lease's clock too.
	fit := func() bool { return r.wanted.Load() && r.term.grant.Valid() && m.probes.failing() == nil }
	m.voter.StartRenewal(left, r.term.token, heir, fit, func(tally quorum.Tally) {
		took, _ := m.clock.PeekSince(*sent)
		r.take(endedRenewal{sent: sent, tally: tally, took: took})
	})
}

// count evaluates the outcome of a renewal. The caller holds mu.
func (r *renewer) count(of *endedRenewal) {
	r.inFlight = false
	m := r.m
	switch {
	case of.tally.Majority(protocol.Renewed):
		if r.term.grant.Renew(of.sent) {
			m.counters.confirmed(of.took)
			m.memory.learn(of.tally)
			r.term.expiry.unconfirmed.Store(nil)
			m.setCondition(condition{})
			m.notePauseOfRenewal(of.tally)
			if of.tally.Written() {
				r.placed(m.voter.Advertised())
			}
		}
		r.retries = false
		r.dueIn(r.next(of.sent))
	case of.tally.Majority(protocol.NoLock, protocol.Taken, protocol.Planted):
		m.counters.refused()
		r.term.lost.Store(true)
		r.term.dataLost.Store(majorityLostData(of.tally))
		r.term.end(ReasonLost, errGone)
	default: // not decided: try again until the deadline
		m.counters.unconfirmed()
		r.term.unconfirmed(of.tally)
		m.setCondition(whyUnconfirmed(of.tally))
		r.dueIn(r.retryIn(of.tally))
	}
	if err := m.rival(); err != nil {
		r.term.end(ReasonLost, err)
	}
}

// retryIn returns the time to the next renewal after one that was not decided. When connections were
// lost, the next one makes new ones, which takes some round trips: it is sent at once.
func (r *renewer) retryIn(tally quorum.Tally) time.Duration {
	if !r.retries && tally.Lost() {
		r.retries = true
		return 0
	}
	return r.m.timing.RetryEvery()
}

// placed records the address that this renewal has brought to a majority of the nodes, and
// notifies the observers when it has changed: without changes they query Redis only once per
// lease.
func (r *renewer) placed(address string) {
	m := r.m
	if address == m.advertised {
		return
	}
	m.advertised = address
	ev := m.termEvent(EventAddress, r.term, nil)
	m.log.Info("advertised address changed", "token", r.term.token, "advertise", address)
	m.subscribers.publish(ev)
	m.voter.Go(func() { m.nodes.Publish(context.Background(), m.keys.Events, ev.encode(), m.timing.CallTimeout()) })
}

// next returns the time to the next renewal after one that a majority has confirmed.
//
// The renewal is repeated at once if a node was free, but refused it because its counter is beyond
// this term's. A candidate that reaches only that node claims it and gives it back every few
// seconds, and each time the counter rises: the node would refuse every renewal for the same
// reason, and the term would end when the next node fails.
func (r *renewer) next(sent *lease.Stamp) time.Duration {
	if r.repeats = !r.repeats && r.m.voter.Regainable(); r.repeats {
		return 0
	}
	elapsed, _ := r.m.clock.Since(*sent)
	return r.m.nodes.AlignToMoment(r.m.timing.RenewEvery()-elapsed, r.m.timing.RenewEvery())
}

// finish stops renewing. It blocks until a renewal that is under way has ended, because the release
// must follow it.
func (r *renewer) finish() {
	r.wanted.Store(false)
	r.m.renewals.remove(&r.task)
	r.mu.Lock()
	inFlight := r.inFlight
	r.mu.Unlock()
	if inFlight {
		<-r.ended
	}
}

// majorityLostData reports whether a renewal found that a majority of the nodes had lost all their data of
// the election. A node that lost only the lock may have granted it to another candidate since.
func majorityLostData(t quorum.Tally) bool {
	lost := 0
	for _, a := range t.Answers {
		if a.Status == protocol.Planted && a.Note == protocol.Forgot {
			lost++
		}
	}
	return lost > len(t.Answers)/2
}

// notePauseOfRenewal records what a renewal has shown of a pause.
func (c *candidate) notePauseOfRenewal(t quorum.Tally) {
	paused, note := 0, ""
	for _, a := range t.Answers {
		if a.Status == protocol.Renewed && a.Note != "" {
			paused, note = paused+1, a.Note
		}
	}
	majority := c.nodes.Majority()
	switch {
	case paused >= majority:
		c.setPaused(note)
	case t.Count(protocol.Renewed)-paused >= majority:
		c.setPaused("")
	}
}

// rival returns why this leader must not remain leader: another candidate has held one of its nodes
// for longer than a lock lasts without a renewal, and uses another number of nodes, other nodes or
// another lease. That candidate is a second leader. Not always do both notice; the leader that does
// ends its term.
func (m *machine) rival() error {
	n := m.nodes.Len()
	for _, r := range m.voter.Rivals() {
		b, err := protocol.ParseLockValue(r.Holder)
		if err != nil || r.For <= b.Lease+b.Lease/8 {
			continue // the lock of an attempt that is not renewed lapses
		}
		what := ""
		switch {
		case b.Nodes != n:
			what = fmt.Sprintf("counts %d Redis nodes, not %d", b.Nodes, n)
		case b.Lease != m.cfg.Lease:
			what = fmt.Sprintf("uses a lease of %v, not %v", b.Lease, m.cfg.Lease)
		case b.Identities.Differ(m.voter.Identities().Known(), n):
			what = "votes with other Redis nodes"
		default:
			continue
		}
		return failed(nil, "another leader, %s, holds the lock of %s and %s", b.Candidate, r.Node, what)
	}
	return nil
}
