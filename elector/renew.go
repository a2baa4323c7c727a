package elector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

var errGone = errors.New("a majority of the nodes no longer holds the lock for this term")

// renewer keeps the lease of one term. It belongs to the state machine's goroutine, which passes it what
// its timer and the nodes' answers bring. One renewal is under way at a time.
type renewer struct {
	m      *machine
	term   *Term
	wanted atomic.Bool // the lease is to be kept: otherwise no renewal is sent
	timer  *time.Timer // fires when the next renewal is due, or the one under way is overdue

	underWay bool         // a renewal is
	reported bool         // it was reported that no majority has confirmed it
	repeats  bool         // it repeats the one before, to regain a node
	retries  bool         // no renewal was confirmed since one whose connection was lost
	sent     *lease.Stamp // when the newest renewal was sent, whatever its outcome; before the first, when the term began
}

func (m *machine) newRenewer(term *Term) *renewer {
	r := &renewer{m: m, term: term, timer: time.NewTimer(0), sent: m.clock.Anchor()}
	r.wanted.Store(true)
	age, _ := term.grant.Age() // counted from when the claim was sent, which may be long ago
	r.timer.Reset(r.dueIn(age))
	return r
}

// dueIn returns the time to the next renewal, counted from when the last one was sent. Renewals of elections
// with the same lease are due at common moments, 16 in each interval, so that they share calls.
func (r *renewer) dueIn(elapsed time.Duration) time.Duration {
	every := r.m.timing.RenewEvery()
	return shared(every-elapsed, every/16)
}

// due handles the timer. A renewal that is overdue at half of its time-out is sent again, on another
// connection: otherwise a connection that was lost in silence would cost the whole time-out. It is not given
// up before the deadline, but reported after two time-outs.
func (r *renewer) due() {
	switch {
	case !r.underWay:
		r.renew()
		return
	case !r.m.voter.RenewAgain(): // a majority has answered, but not the same: the others have had their time
		r.count(r.m.voter.EndRenewal())
		return
	}
	limit := r.m.timing.CallTimeout()
	if age, _ := r.m.clock.Since(*r.sent); age >= 2*limit {
		r.undecided(r.m.voter.Renewal())
	}
	r.timer.Reset(limit / 2)
}

// renew sends one renewal; no other function sends any. It reads the time to the deadline first, and
// checks health last: a process that is suspended in between loses that time, instead of
// renewing on an outdated probe result.
func (r *renewer) renew() {
	m := r.m
	left, _ := r.term.grant.Left()
	if left <= 0 || !r.wanted.Load() {
		return // nothing is sent after the deadline: fit would prevent it too, for each node
	}
	r.sent = m.clock.Anchor()
	if err := m.probes.failing(); err != nil {
		r.term.end(ReasonUnhealthy, err)
		return
	}
	r.underWay, r.reported = true, false
	// fit is called again just before the call to a node leaves, on another goroutine.
	fit := func() bool { return r.wanted.Load() && r.term.grant.Valid() && m.probes.failing() == nil }
	m.voter.Renew(time.Now().Add(left), r.term.token, m.heir(r.term), fit)
	r.timer.Reset(m.timing.CallTimeout() / 2)
}

// take handles what a node's answer has shown.
func (r *renewer) take(tally quorum.Tally, over bool) {
	if over && r.underWay {
		r.count(tally)
	}
}

// count evaluates the outcome of a renewal, and schedules the next one.
func (r *renewer) count(tally quorum.Tally) {
	r.underWay = false
	m := r.m
	took, _ := m.clock.Since(*r.sent)
	switch {
	case tally.Majority(protocol.Renewed):
		if r.term.grant.Renew(r.sent) {
			m.counters.confirmed(took)
			m.memory.learn(tally)
			r.term.expiry.unconfirmed.Store(nil)
			m.setCondition(condition{})
			m.notePauseOfRenewal(tally)
			if tally.Written() {
				r.placed(m.voter.Advertised())
			}
		}
		r.retries = false
		r.timer.Reset(r.next(took))
	case tally.Majority(protocol.NoLock, protocol.Taken, protocol.Planted):
		m.counters.refused()
		r.term.lost.Store(true)
		r.term.dataLost.Store(majorityLostData(tally))
		r.term.end(ReasonLost, errGone)
	default: // not decided: try again until the deadline
		r.undecided(tally)
		r.timer.Reset(r.retryIn(tally))
	}
	if err := m.rival(); err != nil {
		r.term.end(ReasonLost, err)
	}
}

// undecided reports, once, that no majority has confirmed the renewal.
func (r *renewer) undecided(tally quorum.Tally) {
	if !r.reported {
		r.reported = true
		r.m.counters.unconfirmed()
		r.term.unconfirmed(tally)
		r.m.setCondition(whyUnconfirmed(tally))
	}
}

// next returns the time to the next renewal after one that a majority has confirmed.
//
// The renewal is repeated at once if a node was free, but refused it because its counter is beyond
// this term's. A candidate that reaches only that node claims it and gives it back every few
// seconds, and each time the counter rises: the node would refuse every renewal for the same
// reason, and the term would end when the next node fails.
func (r *renewer) next(elapsed time.Duration) time.Duration {
	if r.repeats = !r.repeats && r.m.voter.Regainable(); r.repeats {
		return 0
	}
	return r.dueIn(elapsed)
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

// finish stops renewing. A renewal that is still under way finds the lock released, if it comes after the
// release.
func (r *renewer) finish() {
	r.wanted.Store(false)
	r.timer.Stop()
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
	m.voter.Go(func() {
		m.nodes.Publish(context.Background(), m.keys.Events, []byte(ev.message().Head()+string(ev.encode())), m.timing.CallTimeout())
	})
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
