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
	m       *Member
	shard   int
	work    Work
	report  func(event)
	elector *elector.Elector
	ctx     context.Context
	cancel  context.CancelFunc // ends the campaign, or the term

	term *Term // that it serves; nil: none
	// again ends its work for now: the shard is cut. Nil: no work runs, or it was called.
	again context.CancelFunc
	// rival: the plan has shown another owner. reminders are how often it is to claim by
	// itself, since the plan shows none any more.
	rival     bool
	reminders int
	// stuck: its work has not stopped for long after a term. Until it does, this member can't
	// lead again, and must not be taken for the owner: no other member would campaign.
	stuck bool
	// listens: it would receive a release. since is when it began to campaign.
	listens bool
	since   time.Time
	// cool ends Config.Warm; nil: that was not called. warm: it has returned, or its time is up;
	// unfit is why this member must not have the shard.
	cool  context.CancelFunc
	warm  bool
	unfit error
}

// began is the begin of a term, ran its end, listens that the next release would be received,
// warmed that its owner waits for Config.Warm no longer, and over the end of a candidacy.
type (
	began struct {
		c     *candidacy
		term  *Term
		again context.CancelFunc
	}
	ran struct {
		c *candidacy
	}
	listens struct {
		c *candidacy
	}
	warmed struct {
		c   *candidacy
		err error
	}
	over struct {
		c   *candidacy
		err error
		why *elector.Ended // of its last term; nil: it never led
	}
)

// newCandidacy makes one that has not started. began is when the member did; its tokens are above
// the floor.
func newCandidacy(ctx context.Context, m *Member, shard int, began any, floor uint64, work Work, report func(event)) (*candidacy, error) {
	e, err := elector.New(m.quorum, m.shardConfig(shard))
	if err != nil {
		return nil, err
	}
	inside.Began(e, began)
	inside.Above(e, floor)
	c := &candidacy{m: m, shard: shard, work: work, report: report, elector: e, since: time.Now()}
	inside.Listening(e, func() { c.report(listens{c}) })
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c, nil
}

// start campaigns, on a goroutine of its own.
func (c *candidacy) start() {
	go func() {
		var last *elector.Term
		err := c.elector.Run(c.ctx, func(ctx context.Context, term *elector.Term) error {
			last = term
			return c.serve(ctx, term)
		})
		var why *elector.Ended
		if last != nil {
			errors.As(last.Err(), &why)
		}
		c.report(over{c: c, err: err, why: why})
	}()
}

// serve runs the work of one term: once for each number of shards that the group has during it.
func (c *candidacy) serve(ctx context.Context, term *elector.Term) error {
	for {
		shards, ok := c.m.gate.enter(ctx, c.shard, term.Token(), term.Valid)
		if !ok {
			return nil // the term has ended before any work began
		}
		if again, err := c.perform(ctx, &Term{Term: term, Shard: c.shard, Shards: shards}); !again {
			return err
		}
	}
}

// perform runs the work until its term ends, or the shard is cut: again.
func (c *candidacy) perform(ctx context.Context, term *Term) (again bool, err error) {
	inner, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	c.m.own(term)
	c.report(began{c, term, func() { cut(errCut) }})
	defer func() {
		c.m.disown(term)
		c.report(ran{c})
	}()
	err = c.work(inner, term)
	if ctx.Err() == nil && inner.Err() != nil {
		if err != nil && !errors.Is(err, context.Canceled) {
			c.m.log().Warn("the work of a shard failed as it ended for a growth of the group", "shard", term.Shard, "error", err)
		}
		return true, nil
	}
	var why *elector.Ended
	if errors.As(term.Err(), &why) && leaves(why.Reason) {
		c.cancel() // before the Elector campaigns again
	}
	return false, err
}

var errCut = errors.New("the group grows: the shard has fewer keys from now on")

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

// watch takes whether the plan shows another owner of the shard. Once that has gone the candidacy
// claims, if it has not by then: the message of the release may be lost with the member that has
// left, and it would wait for the end of a lease that is none any more.
func (c *candidacy) watch(other bool) {
	switch {
	case other:
		c.rival, c.reminders = true, 0
		c.getWarm()
	case c.rival:
		c.rival, c.reminders = false, maxReminders
		c.remind()
	}
}

// maxReminders: the owner reports that its work has returned, and releases the lock after that.
const maxReminders = 3

func (c *candidacy) remind() {
	if c.term == nil && c.reminders > 0 {
		c.reminders--
		inside.Claim(c.elector)
	}
}

// getWarm calls Config.Warm, once in a campaign: the shard has an owner, who waits for that.
func (c *candidacy) getWarm() {
	if c.m.cfg.warms() && c.term == nil && c.cool == nil {
		cfg, log := &c.m.cfg, c.m.log().With("shard", c.shard)
		c.cool = c.m.warms.get(c.ctx, c.shard, cfg.WarmTimeout, cfg.Warm, log, func(err error) { c.report(warmed{c, err}) })
	}
}

// gotWarm takes the end of that. A member that can't get ready leaves the shard to others.
func (c *candidacy) gotWarm(err error) {
	if c.warm = true; err != nil && c.term == nil {
		c.unfit = err
		c.cancel()
	}
}

// elected takes that it owns the shard.
func (c *candidacy) elected(term *Term, again context.CancelFunc) {
	if c.term, c.again = term, again; c.cool != nil {
		c.cool()
	}
}

// anew takes that its work has returned, after which it campaigns again unless it ends.
func (c *candidacy) anew() {
	c.term, c.again, c.cool, c.warm = nil, nil, nil, false
	c.listens, c.since = false, time.Now()
}

// ready reports whether the shard's owner may hand it over to this member: it is warm, and the
// release wakes it. Where that never comes true (the Redis user may not subscribe) the shard moves
// all the same.
func (c *candidacy) ready() bool {
	return (c.warm || !c.m.cfg.warms()) && (c.listens || time.Since(c.since) >= c.m.cfg.listenWithin())
}

// overdue reports whether the term ended half a lease ago and its work has not returned.
func (c *candidacy) overdue() bool {
	return c.term != nil && !c.term.Valid() && time.Since(c.term.Deadline()) > c.m.cfg.Lease/2
}

// handOver ends the term in favour of a member that campaigns for the shard already: the
// nodes keep it for that one, which receives the release.
func (c *candidacy) handOver(incarnation, to string) {
	inside.HandOver(c.term.Term, incarnation, fmt.Errorf("moved to %s", to))
}
