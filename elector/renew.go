package elector

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

var errGone = errors.New("a majority of the nodes no longer holds the lock for this term")

// renewal is what the state machine knows of the renewals of its term. One is under way at a time.
type renewal struct {
	timer    *time.Timer // fires when the next renewal is due, or the one under way is overdue
	sent     lease.Stamp // when the newest renewal was sent, whatever its outcome; before the first, when the term began
	underWay bool        // a renewal is
	reported bool        // it was reported that no majority has confirmed it
	repeats  bool        // it repeats the one before, to regain a node
	retries  bool        // no renewal was confirmed since one whose connection was lost
}

// renewalTimer handles the timer. A renewal that is overdue at half of its time-out is sent again, on another
// connection: otherwise a connection that was lost in silence would cost the whole time-out. It is not given
// up before the deadline, but reported after two time-outs.
func (m *machine) renewalTimer() {
	r := &m.renewal
	switch {
	case !r.underWay:
		m.renew()
		return
	case !m.voter.RenewAgain(): // a majority has answered, but not the same: the others have had their time
		m.renewalDone(m.voter.EndRenewal())
		return
	}
	limit := m.timing.CallTimeout()
	if age, _ := m.clock.Since(r.sent); age >= 2*limit {
		m.undecided(m.voter.Renewal())
	}
	r.timer.Reset(limit / 2)
}

// renew sends one renewal; no other function sends any. It reads the time to the deadline first, and
// checks health last: a process that is suspended in between loses that time, instead of
// renewing on an outdated probe result.
func (m *machine) renew() {
	r, t := &m.renewal, m.serving
	left, _ := t.grant.Left()
	if left <= 0 || !t.keep.Load() {
		return // nothing is sent after the deadline: fit would prevent it too, for each node
	}
	r.sent = m.clock.Now()
	if err := m.probes.failing(); err != nil {
		t.end(ReasonUnhealthy, err)
		return
	}
	r.underWay, r.reported = true, false
	// fit is called again just before the call to a node leaves, on another goroutine.
	fit := func() bool { return t.keep.Load() && t.grant.Valid() && m.probes.failing() == nil }
	m.voter.Renew(time.Now().Add(left), t.token, m.heir(t), fit)
	r.timer.Reset(m.timing.CallTimeout() / 2)
}

// answered evaluates an answer of a node, and the renewal if that is over.
func (m *machine) answered(tally quorum.Tally, over bool) {
	if over {
		m.renewalDone(tally)
	}
	if err := m.rival(); err != nil {
		m.serving.lostTo(err)
	}
}

// renewalDone evaluates the outcome of a renewal, and schedules the next one.
func (m *machine) renewalDone(tally quorum.Tally) {
	r, t := &m.renewal, m.serving
	r.underWay = false
	took, _ := m.clock.Since(r.sent)
	switch {
	case tally.Majority(protocol.Renewed):
		if t.grant.Renew(r.sent) {
			m.counters.renewed(took)
			m.memory.learn(tally)
			t.unconfirmed.Store(nil)
			m.setTrouble(renewing, nil)
			m.bus.Check(m.cfg.Lease, m.timing.CallTimeout()) // an operator's request must reach this leader
			m.notePause(tally)
			_ = m.overload()
			m.voter.CheckAddresses(min(time.Since(t.since)/2, 4*m.cfg.Lease), t.lostTo)
		}
		r.retries = false
		m.renewIn(m.next(took))
	case tally.Majority(protocol.NoLock, protocol.Taken, protocol.Planted):
		m.counters.count(func(n *Stats) { n.Renewals.Refused++ })
		t.lost.Store(true)
		lost := lostData(tally)
		if m.dataLost = lost >= m.nodes.Majority(); m.dataLost {
			t.end(ReasonDataLost, fmt.Errorf("at least %d of %d nodes lost all their data", lost, len(tally.Answers)))
		} else {
			t.end(ReasonLost, errGone)
		}
	default: // not decided: try again until the deadline
		m.undecided(tally)
		m.renewIn(m.retryIn(tally))
	}
}

// renewIn sends the next renewal in that time. A timer that is reset to now would cost the Go runtime a walk over all timers
// of the process, for each of the renewals that are late.
func (m *machine) renewIn(d time.Duration) {
	if d > 0 {
		m.renewal.timer.Reset(d)
	} else {
		m.renew()
	}
}

// undecided reports, once, that no majority has confirmed the renewal.
func (m *machine) undecided(tally quorum.Tally) {
	if !m.renewal.reported {
		m.renewal.reported = true
		m.counters.count(func(n *Stats) { n.Renewals.Unconfirmed++ })
		m.serving.notConfirmed(tally)
		m.setTrouble(renewing, noMajority(len(tally.Answers), tally.NotConfirmed()))
	}
}

// next returns the time to the next renewal after one that a majority has confirmed.
//
// The renewal is repeated at once if a node was free, but refused it because its counter is beyond
// this term's. A follower whose claim wins only that node gives it back, and the counter rises: with
// many followers the node would refuse every renewal for the same reason, and the term would end when
// the next node fails.
func (m *machine) next(elapsed time.Duration) time.Duration {
	if m.renewal.repeats = !m.renewal.repeats && m.voter.Regainable(); m.renewal.repeats {
		return 0
	}
	return m.nextRenewalIn(elapsed)
}

// nextRenewalIn returns the time to the next renewal, counted from when the last one was sent. Renewals of elections
// with the same lease are due at four common moments in each interval, so that they share calls.
func (m *machine) nextRenewalIn(elapsed time.Duration) time.Duration {
	every := m.timing.RenewEvery()
	step := every / moments
	if elapsed > step/8 { // so far away a renewal would wait for the calls of the one before, and an outage would cost more terms
		step /= 4
	}
	return shared(every-elapsed, step)
}

// moments is how many in each interval between two renewals elections share. Fewer make more of them travel in each call:
// awake and in the caches of the processor, an election costs less than half.
const moments = 4

// shared shortens the time to an event by less than step, so that it falls on a moment that it shares
// with such events of other elections: a process that is awake anyway handles them together. Steps that
// are shorter than a millisecond, which timers hardly distinguish, shorten nothing.
func shared(in, step time.Duration) time.Duration {
	if step < time.Millisecond {
		return max(0, in)
	}
	now := time.Now().Round(0) // as Truncate, without the monotonic clock
	return max(0, now.Add(in).Truncate(step).Sub(now))
}

// retryIn returns the time to the next renewal after one that was not decided. When connections were
// lost, the next one makes new ones, which takes some round trips: it is sent at once.
func (m *machine) retryIn(tally quorum.Tally) time.Duration {
	if !m.renewal.retries && tally.Lost() {
		m.renewal.retries = true
		return 0
	}
	return m.timing.RetryEvery()
}

// lostData returns how many nodes a renewal found to have lost all their data of the election. A node that
// lost only the lock may have granted it to another candidate since.
func lostData(t quorum.Tally) int {
	return count(t.Answers, func(a protocol.Answer) bool { return a.Status == protocol.Planted && a.Note == protocol.Forgot })
}

// rival returns an error if this leader must step down: no lock can hold on its nodes, or another candidate holds one of
// them, by one of two proofs. That candidate has another configuration, and its lock refused our claim there, in an answer
// that came late; or its lock was seen, during this term, for longer than a lock lasts without a renewal. Not always do
// both leaders notice: the one that does ends its term.
func (m *machine) rival() error {
	if err := m.voter.Several(); err != nil {
		return err
	}
	for _, r := range m.voter.Rivals() {
		late := r.Late && r.What != ""
		switch {
		case late && !r.Sure: // as in a claim that waited for it, this is not certain yet
			return failed(nil, "another candidate, %s, holds the lock of %s and names other Redis nodes", r.Holder.Candidate, r.Node)
		case late, r.For(m.serving.since) > r.Holder.Lease*9/8:
			return failed(nil, "another leader, %s, holds the lock of %s and %s", r.Holder.Candidate, r.Node, cmp.Or(r.What, "renews it"))
		}
	}
	return nil
}
