package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/inside"
)

// candidacy is this member as a candidate in the election of one shard. Its fields belong to the
// reconciler's goroutine.
type candidacy struct {
	r       *reconciler
	shard   int
	elector *elector.Elector
	ctx     context.Context
	cancel  context.CancelFunc // ends the campaign, or the term

	term *Term // that it serves; nil: none
	// stuck: its work has not stopped for long after a term. Until it does, this member can't
	// lead again, and must not be taken for the owner: nobody else would campaign.
	stuck bool
}

// began is the begin of a term, ran its end, and over that of a candidacy.
type (
	began struct {
		c    *candidacy
		term *Term
	}
	ran struct {
		c *candidacy
	}
	over struct {
		c   *candidacy
		err error
		why *elector.Ended // of its last term; nil: it never led
	}
)

func newCandidacy(r *reconciler, shard int) (*candidacy, error) {
	e, err := elector.New(r.m.quorum, r.m.shardConfig(shard))
	if err != nil {
		return nil, err
	}
	inside.Began(e, r.began)
	c := &candidacy{r: r, shard: shard, elector: e}
	c.ctx, c.cancel = context.WithCancel(r.ctx)
	return c, nil
}

// start campaigns, on a goroutine of its own.
func (c *candidacy) start() {
	go func() {
		var last *elector.Term
		err := c.elector.Run(c.ctx, func(ctx context.Context, term *elector.Term) error {
			last = term
			return c.serve(ctx, &Term{Term: term, Shard: c.shard})
		})
		var why *elector.Ended
		if last != nil {
			errors.As(last.Err(), &why)
		}
		c.r.send(over{c: c, err: err, why: why})
	}()
}

// serve runs the work of one term.
func (c *candidacy) serve(ctx context.Context, term *Term) error {
	m := c.r.m
	m.own(term)
	c.r.send(began{c, term})
	defer func() {
		m.disown(term)
		c.r.send(ran{c})
	}()
	err := c.r.work(ctx, term)
	var why *elector.Ended
	if errors.As(term.Err(), &why) && leaves(why.Reason) {
		c.cancel() // before the Elector campaigns again
	}
	return err
}

// leaves reports whether a shard should go elsewhere after such an end. After the others
// this member campaigns for it at once: nothing of its own was wrong.
func leaves(r elector.Reason) bool {
	switch r {
	case elector.ReasonUnhealthy, elector.ReasonFailed, elector.ReasonPanicked, elector.ReasonResigned, elector.ReasonHandover:
		return true
	default:
		return false
	}
}

func (e began) apply(r *reconciler) {
	e.c.term, r.led, r.changed = e.term, true, true
}

func (e ran) apply(r *reconciler) {
	e.c.term, r.changed = nil, true
	if e.c.stuck || r.cordon() != nil {
		e.c.cancel() // the shard is for others by now
	}
}

// inability is that this member has failed at a shard.
type inability struct {
	until time.Time
	trips int
}

func (e over) apply(r *reconciler) {
	c := e.c
	c.cancel()
	delete(r.running, c.shard)
	r.changed = true
	if r.closing && errors.Is(e.err, elector.ErrNotReleased) {
		r.unreleased = append(r.unreleased, fmt.Errorf("shard %d: %w", c.shard, e.err))
	}
	// One shard whose keys another program has written must not end what else this member
	// does; a member that can't work at all must not go on in silence.
	if errors.Is(e.err, elector.ErrPermanent) && !r.led && len(r.running) == 0 {
		go r.send(failure{e.err})
	}
	moved := c.shard < len(r.next) && r.next[c.shard] != r.me
	failed := e.err != nil || e.why != nil && leaves(e.why.Reason)
	if (failed && !moved || c.stuck) && !r.closing {
		u := r.unable[c.shard]
		u.trips = min(u.trips+1, 5)
		u.until = time.Now().Add(r.m.cfg.Cooldown << (u.trips - 1))
		r.unable[c.shard] = u
		r.m.log().Warn("leaving a shard to other members", "shard", c.shard, "for", r.m.cfg.Cooldown<<(u.trips-1), "error", e.err)
	}
}

// overdue reports whether the term ended half a lease ago and its work has not returned.
func (c *candidacy) overdue() bool {
	return c.term != nil && !c.term.Valid() && time.Since(c.term.Deadline()) > c.r.m.cfg.Lease/2
}

// handOver ends the term in favour of a member that campaigns for the shard already: the
// nodes keep it for that one, which receives the release.
func (c *candidacy) handOver(incarnation, to string) {
	inside.HandOver(c.term.Term, incarnation, fmt.Errorf("moved to %s", to))
}
