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
	m        *Member
	shard    int
	work     Work
	admitted func() bool // work may begin
	report   func(event)
	elector  *elector.Elector
	ctx      context.Context
	cancel   context.CancelFunc // ends the campaign, or the term

	term *Term // whose work runs; nil: none
	// rival: the plan shows another owner. reminders is how many more times to claim without a
	// release message, once the plan shows no other owner any more.
	rival     bool
	reminders int
	// stuck: the work is still running long after its term. Until it returns, this member can't
	// lead again, and must not report the shard as owned: no other member would campaign for it.
	stuck bool
	// listens: a release would be received. since is when the campaign began.
	listens bool
	since   time.Time
	// cool cancels Config.Warm; nil: Warm was not called. warm: Warm has returned, or its time is
	// up. unfit is the error of Warm; the member leaves the shard to others.
	cool  context.CancelFunc
	warm  bool
	unfit error
}

// Events of a candidacy: began is the begin of a term's work, and ran its end; listens means that
// the next release would be received, warmed that the owner need not wait for Config.Warm any
// longer; over is the end of the candidacy.
type (
	began struct {
		c    *candidacy
		term *Term
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
		why *elector.Ended // how the last term ended; nil: there was none
	}
)

// newCandidacy makes a candidacy, which start starts.
func newCandidacy(r *reconciler, shard int) (*candidacy, error) {
	e, err := elector.New(r.m.quorum, r.m.shardConfig(shard))
	if err != nil {
		return nil, err
	}
	inside.Began(e, r.began)
	c := &candidacy{m: r.m, shard: shard, work: r.work, admitted: r.admission.holds, report: r.send, elector: e, since: time.Now()}
	inside.Listening(e, func() { c.report(listens{c}) })
	c.ctx, c.cancel = context.WithCancel(r.ctx)
	return c, nil
}

// start campaigns on a new goroutine.
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

// serve runs the work of one term.
func (c *candidacy) serve(ctx context.Context, won *elector.Term) error {
	for !c.admitted() {
		select {
		case <-ctx.Done():
			return nil // the term has ended before any work began
		case <-time.After(admissionPoll):
		}
	}
	term := &Term{Term: won, Shard: c.shard, Shards: c.m.cfg.Shards}
	c.m.own(term)
	c.report(began{c, term})
	defer func() {
		c.m.disown(term)
		c.report(ran{c})
	}()
	err := c.work(ctx, term)
	var why *elector.Ended
	if errors.As(term.Err(), &why) && leaves(why.Reason) {
		c.cancel() // now, or the Elector would campaign again
	}
	return err
}

// admissionPoll is the time between two looks at the admission, which a beat is about to renew.
const admissionPoll = 10 * time.Millisecond

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
	switch {
	case other:
		c.rival, c.reminders = true, 0
		c.getWarm()
	case c.rival:
		c.rival, c.reminders = false, maxReminders
		c.remind()
	}
}

// maxReminders allows for claims that come too early: an owner first reports that its work has
// returned, and releases the lock after that.
const maxReminders = 3

func (c *candidacy) remind() {
	if c.term == nil && c.reminders > 0 {
		c.reminders--
		inside.Claim(c.elector)
	}
}

// getWarm calls Config.Warm, once per campaign. The shard has another owner, which waits for it.
func (c *candidacy) getWarm() {
	if c.m.cfg.warms() && c.term == nil && c.cool == nil {
		cfg, log := &c.m.cfg, c.m.log().With("shard", c.shard)
		c.cool = c.m.warms.get(c.ctx, c.shard, cfg.WarmTimeout, cfg.Warm, log, func(err error) { c.report(warmed{c, err}) })
	}
}

// gotWarm handles the end of Config.Warm. If Warm has failed, the member leaves the shard to others.
func (c *candidacy) gotWarm(err error) {
	if c.warm = true; err != nil && c.term == nil {
		c.unfit = err
		c.cancel()
	}
}

// elected records that this member owns the shard.
func (c *candidacy) elected(term *Term) {
	if c.term = term; c.cool != nil {
		c.cool()
	}
}

// workDone records that the work has returned. The candidacy then campaigns again unless it ends.
func (c *candidacy) workDone() {
	c.term, c.cool, c.warm = nil, nil, false
	c.listens, c.since = false, time.Now()
}

// ready reports whether the shard's owner may hand it over to this member: Config.Warm is done, and
// the release would be received. A member whose Redis user may not subscribe counts as ready after
// listenWithin.
func (c *candidacy) ready() bool {
	return (c.warm || !c.m.cfg.warms()) && (c.listens || time.Since(c.since) >= c.m.cfg.listenWithin())
}

// overdue reports whether the work is still running although half a lease has passed since the
// deadline of its term.
func (c *candidacy) overdue() bool {
	return c.term != nil && !c.term.Valid() && time.Since(c.term.Deadline()) > c.m.cfg.Lease/2
}

// handOver ends the term in favour of a member that campaigns for the shard already. The nodes
// reserve the shard for that member, which receives the release.
func (c *candidacy) handOver(incarnation, to string) {
	inside.HandOver(c.term.Term, incarnation, fmt.Errorf("moved to %s", to))
}
