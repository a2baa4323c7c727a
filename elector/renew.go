package elector

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
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

// renew sends one renewal; no other function begins one (RenewAgain repeats it under the same checks). It reads the time to the deadline first, and
// checks health last: a process that is suspended in between loses that time, instead of
// renewing on an outdated probe result.
func (m *machine) renew() {
	r, t := &m.renewal, m.serving
	left, _ := t.grant.Left()
	if left <= 0 || !t.renews.Load() {
		return // nothing is sent after the deadline: fit would prevent it too, for each node
	}
	r.sent = m.clock.Now()
	if err := m.probes.failing(); err != nil {
		t.end(ReasonUnhealthy, err)
		return
	}
	r.underWay, r.reported = true, false
	// fit is called again just before the call to a node leaves, on another goroutine.
	fit := func() bool { return t.renews.Load() && t.grant.Valid() && m.probes.failing() == nil }
	m.voter.Renew(time.Now().Add(left), t.token, m.heir(), fit)
	r.timer.Reset(m.timing.CallTimeout() / 2)
}

// renewalDone evaluates the outcome of a renewal, and schedules the next one.
func (m *machine) renewalDone(tally quorum.Tally) {
	r, t := &m.renewal, m.serving
	r.underWay = false
	took, _ := m.clock.Since(r.sent)
	var next time.Duration
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
		// A node that was free may have refused because its counter is beyond this term's. A follower whose claim wins
		// only that node gives it back, and the counter rises: with many followers the node would refuse every renewal
		// for the same reason, and the term would end when the next node fails. So this renewal is repeated, with what that
		// node answers meanwhile: one that names an older counter would be refused again.
		next = max(took, nodes.MinExtraWait)
		if r.repeats = !r.repeats && m.voter.Regainable(); !r.repeats {
			next = m.nextRenewalIn(took)
		}
	case tally.Majority(protocol.NoLock, protocol.Taken, protocol.Planted):
		m.counters.count(func(n *Stats) { n.Renewals.Refused++ })
		t.lost.Store(true)
		// How many lost all their data: a node that lost only the lock may have granted it to another candidate since.
		lost := count(tally.Answers, func(a protocol.Answer) bool { return a.Status == protocol.Planted && a.Note == protocol.Forgot })
		if m.dataLost = lost >= m.nodes.Majority(); m.dataLost {
			t.end(ReasonDataLost, fmt.Errorf("at least %d of %d nodes lost all their data", lost, len(tally.Answers)))
		} else {
			t.end(ReasonLost, errGone)
		}
		return
	default: // not decided: it is tried again until the deadline
		m.undecided(tally)
		// After connections were lost the next renewal has to make new ones, which takes some round trips: it does not wait.
		next = m.timing.RetryEvery()
		if !r.retries && tally.Lost() {
			r.retries, next = true, 0
		}
	}
	if next > 0 {
		r.timer.Reset(next)
	} else {
		m.renew() // a timer that is reset to now would cost the Go runtime a walk over all timers of the process
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

// heir returns the candidate for which the nodes reserve leadership when this term ends: that of a
// request to hand over, or of the Succession.
func (m *machine) heir() protocol.Heir {
	to := m.peers.Heir()
	if h := m.serving.handTo.Load(); h != nil && h.to != "" {
		to = h.to
	}
	if to == "" {
		return protocol.Heir{}
	}
	return protocol.Heir{Incarnation: to, Keep: m.reservedFor()}
}

// reservedFor returns how long the other candidates wait for the heir.
func (m *machine) reservedFor() time.Duration { return m.cfg.Lease / 4 }

// rival returns an error if this leader must step down: too many addresses lead to several servers, or another candidate
// holds one of the nodes. Two proofs count for the latter. A lock refused our claim there, in an answer that came late, and
// its holder has another configuration. Or the lock was seen, during this term, for longer than one lasts without a renewal.
// Of two leaders perhaps only one notices: it ends its term.
func (m *machine) rival() error {
	if err := m.voter.Several(); err != nil {
		return err
	}
	for _, r := range m.voter.Rivals() {
		late := r.Late && r.What != ""
		switch {
		case late && !r.Sure: // as in a claim that waited for it, this is not certain yet
			return fmt.Errorf("another candidate, %s, holds the lock of %s and names other Redis nodes", r.Holder.Candidate, r.Node)
		case late, r.For(m.serving.since) > r.Holder.Lease*9/8:
			return fmt.Errorf("another leader, %s, holds the lock of %s and %s", r.Holder.Candidate, r.Node, cmp.Or(r.What, "renews it"))
		}
	}
	return nil
}
