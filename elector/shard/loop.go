package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// errDone ends the reconciler's loop without an error.
var errDone = errors.New("done")

// run is the reconciler's loop. It returns when all shards of this member were handed over or
// released.
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
			r.onTick()
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

// leftovers returns an error if locks of shards were left to lapse: how many, and the error of the
// first one.
func (r *reconciler) leftovers() error {
	if len(r.unreleased) == 0 {
		return nil
	}
	return fmt.Errorf("shard: %d shards were not released, their locks have lapsed: %w", len(r.unreleased), r.unreleased[0])
}

// drained reports whether no shard is left that another member could take over: all have been taken
// over, or the plan that counts this member as closed assigns the others to no member, or the nodes
// don't answer, and without them no member can take over anything.
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

// endAll ends all remaining candidacies at once, and waits for them.
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

// apply applies all events that wait, and then acts once on what they have changed. If a thousand
// shards begin or end together, it does not look at all shards a thousand times.
func (r *reconciler) apply() {
	for all := r.inbox.take(); len(all) > 0; all = r.inbox.take() {
		for _, e := range all {
			r.take(e)
		}
	}
	if r.changed {
		r.changed = false
		if r.next != nil {
			r.act()
		}
		r.report()
	}
}
