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

// renewer keeps the lease of one term. While the term lasts a renewal that changes nothing but the lease is made without the
// state machine: to wake its goroutine, twice, takes longer than all the rest. Whatever else comes of one is for the state
// machine, and so is all that follows the term's end.
type renewer struct {
	m      *machine
	term   *Term
	wanted atomic.Bool        // the lease is wanted: no renewal goes out without
	due    chan struct{}      // the state machine is to renew
	ended  chan *endedRenewal // how a renewal ended, for the state machine
	task   task               // fires when it is due

	// fire and take never wait for mu: where it is taken the state machine renews or counts, and a log handler may block it.
	// They leave the work to it, through due and ended.
	mu       sync.Mutex   // of all below
	inFlight bool         // a renewal is under way
	repeats  bool         // it repeats the one before, to take a node back
	lastSent *lease.Stamp // when the newest renewal was sent, or else the claim, whatever came of it
}

// endedRenewal is how one renewal ended.
type endedRenewal struct {
	sent  *lease.Stamp // it may be that of many
	tally quorum.Tally
	took  time.Duration
}

func (m *machine) newRenewer(term *Term) *renewer {
	r := &renewer{m: m, term: term, due: make(chan struct{}, 1), ended: make(chan *endedRenewal, 1), lastSent: m.clock.Anchor()}
	r.task.fire = r.fire
	r.wanted.Store(true)
	return r
}

// begin schedules the first renewal, counted from when the claim was sent. That may be long ago, when
// the claim waited for a connection: counted from the term's begin, the lease could end first.
func (r *renewer) begin() {
	m := r.m
	age, _ := r.term.grant.Age()
	r.dueIn(m.nodes.Together(max(0, m.timing.RenewEvery-age), m.timing.RenewEvery))
}

func (r *renewer) dueIn(d time.Duration) { r.m.renewals.add(&r.task, d, oneMoment, oneMoment) }

// fire renews when that is due, on a goroutine that does so for many elections. at is a moment before, by the machine's clock.
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

// take takes how a renewal ended, on the goroutine of its call, which serves other elections too: it must not block.
func (r *renewer) take(of endedRenewal) {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		if !r.term.ended.Load() && r.quiet(&of) {
			r.count(&of)
			return
		}
	}
	late := of // or each would be allocated
	late.tally = of.tally.Clone()
	r.ended <- &late
}

// quiet reports whether a renewal changes nothing but the lease: then count logs and publishes nothing, and ends no term.
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

// countNow takes there how one ended.
func (r *renewer) countNow(of *endedRenewal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(of)
}

// renew sends one renewal, and nothing else does. It reads the time to the deadline first, and
// checks health last: a process that is suspended in between loses that time, instead of
// renewing on an old verdict. The requests run in the background, so that the state machine can
// end the term at any time. There is one renewal at a time: count schedules the next one.
// The caller holds mu.
func (r *renewer) renew(sent *lease.Stamp) {
	m := r.m
	left, _ := r.term.grant.Left()
	if left <= 0 {
		return // nothing is sent after the deadline: fit would find that, too, at each node's turn
	}
	if err := m.probes.failing(); err != nil {
		r.term.end(ReasonUnhealthy, err)
		return
	}
	r.inFlight, r.lastSent = true, sent
	heir := m.heir(r.term)
	// Asked again at a node's turn. left has run on the monotonic clock, which stands
	// still while the machine sleeps: so the clock is read too.
	fit := func() bool { return r.wanted.Load() && r.term.grant.Valid() && m.probes.failing() == nil }
	m.voter.StartRenewal(left, r.term.token, heir, fit, func(tally quorum.Tally) {
		took, _ := m.clock.PeekSince(*sent)
		r.take(endedRenewal{sent: sent, tally: tally, took: took})
	})
}

// count takes how a renewal ended. The caller holds mu.
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
		r.dueIn(r.next(of.sent))
	case of.tally.Majority(protocol.NoLock, protocol.Taken, protocol.Planted):
		m.counters.refused()
		r.term.lost.Store(true)
		r.term.bereft.Store(bereaved(of.tally))
		r.term.end(ReasonLost, errGone)
	default: // unknown: ride it until the deadline
		m.counters.unconfirmed()
		r.term.unconfirmed(of.tally)
		m.setCondition(whyUnconfirmed(of.tally))
		r.dueIn(m.timing.RetryEvery())
	}
	if err := m.rival(); err != nil {
		r.term.end(ReasonLost, err)
	}
}

// placed takes the address that a majority of the nodes has with this renewal, and
// notifies the observers when it is another one: they look at a steady leader once per
// lease only.
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

// next is the time to the next renewal after one that a majority has confirmed.
//
// A node that was free, with a counter beyond this term's, is asked again at once. A
// candidate that reaches no other node claims it and gives it back every few seconds; each
// time its counter rises, and the next renewal would be refused for the same reason, for
// ever: the term would end with the next node that fails.
func (r *renewer) next(sent *lease.Stamp) time.Duration {
	if r.repeats = !r.repeats && r.m.voter.Regainable(); r.repeats {
		return 0
	}
	elapsed, _ := r.m.clock.Since(*sent)
	return r.m.nodes.Together(r.m.timing.RenewEvery-elapsed, r.m.timing.RenewEvery)
}

// finish keeps the lease no longer. It waits for the renewal under way: a release
// follows its end.
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

// bereaved reports whether a renewal found that a majority of the nodes had lost not
// only the lock, which others may then have had, but all that they knew.
func bereaved(t quorum.Tally) bool {
	lost := 0
	for _, a := range t.Answers {
		if a.Status == protocol.Planted && a.Note == protocol.Forgot {
			lost++
		}
	}
	return lost > len(t.Answers)/2
}

// notePauseOfRenewal takes what a renewal has shown of a pause.
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

// rival is why a sitting leader must not remain leader: another candidate holds one of its nodes,
// for longer than a lock lives that is not renewed, and counts, or knows, other nodes.
// There is a second leader then. Both don't always see it; who does makes room.
func (m *machine) rival() error {
	n := m.nodes.Len()
	for _, r := range m.voter.Rivals() {
		b, err := protocol.ParseLockValue(r.Holder)
		if err != nil || r.For <= b.Lease+b.Lease/8 {
			continue // an attempt that is not renewed lapses
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
