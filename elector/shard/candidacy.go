package shard

import (
	"context"
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/module"
)

// candidacy is this member as a candidate in the election of one shard. Its fields belong to the
// reconciler's goroutine.
type candidacy struct {
	r       *reconciler
	shard   int
	elector *elector.Elector
	cancel  context.CancelFunc // ends the campaign, or the term
	since   time.Time          // when the campaign began

	term  *Term // whose work runs; nil: none
	rival bool  // the plan shows another owner
	// stuck: the work is still running long after its term. Until it returns, this member can't
	// lead again, and must not report the shard as owned: no other member would campaign for it.
	stuck bool
}

// run campaigns until the candidacy is cancelled or fails.
func (c *candidacy) run(ctx context.Context) {
	var why *elector.Ended // how the last term has ended; nil: it has not, or its work has returned before
	err := c.elector.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		err := c.serve(ctx, term)
		if why = nil; errors.As(term.Err(), &why) && leaves(why.Reason) {
			c.cancel() // now, or the Elector would campaign again
		}
		return err
	})
	c.r.send(func() { c.r.candidacyOver(c, err, why) })
}

// serve runs the work of one term, once this member is admitted.
func (c *candidacy) serve(ctx context.Context, won *elector.Term) error {
	for !c.r.admitted() {
		if !lease.Sleep(ctx, pollEvery) {
			return nil // the term has ended before any work began
		}
	}
	m, term := c.r.m, &Term{Term: won, Shard: c.shard, Shards: c.r.m.cfg.Shards}
	m.own(c.shard, term)
	c.r.send(func() { c.term, c.r.led = term, true })
	defer func() {
		m.own(c.shard, nil)
		c.r.send(func() { // the candidacy then campaigns again unless it ends
			c.term, c.since = nil, time.Now()
			if c.stuck {
				c.cancel() // other members should own the shard by now
			}
		})
	}()
	return c.r.work(ctx, term)
}

// leaves reports whether a shard should move to another member after a term that ended for this
// reason. After any other reason this member campaigns again at once, because it is not at fault.
func leaves(r elector.Reason) bool {
	switch r {
	case elector.ReasonUnhealthy, elector.ReasonFailed, elector.ReasonPanicked, elector.ReasonResigned, elector.ReasonHandover:
		return true
	default:
		return false
	}
}

// watch notes whether the plan shows another owner of the shard. When the plan stops showing one, the
// candidacy claims without waiting for a release message: the message may be lost with the member
// that left, and the candidacy would wait for the end of a lease that was released already.
func (c *candidacy) watch(other bool) {
	if c.rival && !other && c.term == nil {
		c.elector.ClaimNow(module.Only{})
	}
	c.rival = other
}

// ready reports whether the shard's owner may hand it over to this member: the release would be
// received. A candidate that can't subscribe counts as ready after an eighth of a lease.
func (c *candidacy) ready() bool {
	return c.elector.StandsBy(module.Only{}) || time.Since(c.since) >= c.r.m.cfg.beatEvery()
}

// overdue reports whether the work is still running although half a lease has passed since the
// deadline of its term.
func (c *candidacy) overdue() bool {
	return c.term != nil && !c.term.Valid() && time.Since(c.term.Deadline()) > c.r.m.cfg.Lease/2
}
