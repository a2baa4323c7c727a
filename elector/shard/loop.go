package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// errDone ends the reconciler's loop well.
var errDone = errors.New("done")

// run is the reconciler's loop, until all that this member owned was handed over or released.
func (r *reconciler) run(ctx context.Context) error {
	defer r.inbox.close()
	tick := time.NewTicker(r.m.cfg.beatEvery())
	defer tick.Stop()
	stopping := ctx.Done()
	var drained <-chan time.Time
	err := error(nil)
	for err == nil {
		select {
		case <-r.inbox.arrived:
			r.apply()
			err = r.failed
		case <-tick.C:
			r.look()
		case <-r.recordoned:
			r.cordoned()
		case <-stopping:
			stopping = nil
			drained = time.After(r.m.cfg.leaveWithin())
			r.closing = true
			r.report()
		case <-drained:
			err = errDone
		}
		if r.closing && err == nil && r.drained() {
			err = errDone
		}
	}
	r.endAll()
	if errors.Is(err, errDone) {
		return r.leftovers()
	}
	return err
}

// leftovers is that shards were left to lapse: nil, or how many, and why the first one was.
func (r *reconciler) leftovers() error {
	if len(r.unreleased) == 0 {
		return nil
	}
	return fmt.Errorf("shard: %d shards were not released, their locks have lapsed: %w", len(r.unreleased), r.unreleased[0])
}

// drained reports whether nothing is left that another member could take over: all has
// been, or the plan that knows of this member's end assigns the rest to no member. Without
// Redis no member can take over anything.
func (r *reconciler) drained() bool {
	if len(r.running) == 0 || r.plan == nil || r.cutOff() {
		return true
	}
	if r.me != group.NoMember && !r.plan.Members[r.me].Closed {
		return false
	}
	for s := range r.running {
		if r.next[s] != group.NoMember {
			return false
		}
	}
	return true
}

// endAll ends the candidacies that are left, all at once, and waits for them.
func (r *reconciler) endAll() {
	r.closing = true
	for _, c := range r.running {
		c.cancel()
	}
	for len(r.running) > 0 {
		<-r.inbox.arrived
		r.apply()
	}
}

// apply takes the events that wait, and then looks once at what they have changed: a thousand
// shards that begin or end together would otherwise be looked at a thousand times.
func (r *reconciler) apply() {
	for all := r.inbox.take(); len(all) > 0; all = r.inbox.take() {
		for _, e := range all {
			r.take(e)
		}
	}
	r.cut()
	if r.changed {
		r.changed = false
		if r.next != nil {
			r.act()
		}
		r.report()
	}
}
