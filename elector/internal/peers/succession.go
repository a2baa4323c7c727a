package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

var errOutranked = errors.New("a candidate with a higher priority is available")

// updateSuccession does what the order of succession requires: it publishes changes of this candidate, and as
// a leader looks for an heir.
func (p *Peers) updateSuccession(ctx context.Context) {
	self, now := p.self(), time.Now()
	p.others.forget(now, 10*p.c.Lease)
	if now.Sub(p.rollCallAt) > p.c.RenewEvery { // a candidate that did not answer the last roll call is gone
		p.others.forget(now, now.Sub(p.rollCallAt))
	}
	shown := self.Role + " " + self.Detail
	if shown != p.shown {
		p.shown = shown
		p.publish(context.Background(), request{Kind: info, Candidate: &self})
	}
	token, leads := p.c.Self.Leading()
	if !leads {
		if self.Role != p.c.Stopping { // the release of a stopping leader still names the heir
			p.heir.Store(nil)
		}
		return
	}
	p.lookAsLeader(ctx, self, token, now)
}

// lookAsLeader calls the roll if that is due, updates the heir, and hands over to a candidate
// that outranks this one.
func (p *Peers) lookAsLeader(ctx context.Context, self Candidate, token uint64, now time.Time) {
	higher := p.outrankingCandidate(self, now)
	// The candidate to which this leader should yield may have died since it was last seen.
	doubtful := higher != nil && now.Sub(higher.at) > p.c.RenewEvery && now.Sub(p.rollCallAt) > p.c.RenewEvery
	if token != p.rollCallToken || now.Sub(p.rollCallAt) > 4*p.c.Lease || doubtful {
		p.rollCallToken, p.rollCallAt = token, now
		p.publish(context.Background(), request{Kind: leaderAll, Nonce: rand.Text()})
	}
	first := ""
	if heir := p.others.heir(p.c.Order, p.c.Following, self); heir != nil {
		first = heir.Incarnation
	}
	if first != p.Heir() {
		p.heir.Store(&first)
	}
	if higher != nil && higher.at.After(p.rollCallAt) && now.Sub(higher.at) <= p.c.RenewEvery && p.c.Self.Yieldable(ctx) == nil {
		p.c.Self.HandOver(token, higher.Incarnation, errOutranked)
	}
}

// outrankingCandidate returns the candidate to which this leader has to yield, once that candidate has answered
// the roll call of this term; nil: there is none.
func (p *Peers) outrankingCandidate(self Candidate, now time.Time) *entry {
	if p.c.Order != ByPriority || p.c.Self.IsPaused() {
		return nil
	}
	return p.others.outranks(p.c.Following, self, p.c.Lease, now)
}
