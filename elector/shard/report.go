package shard

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
)

// report updates this member's record, and has the links send it at once if it has changed.
func (r *reconciler) report() {
	next := r.self
	next.Owned, next.Unable, next.Ready = group.Set{}, group.Set{}, map[int]string{}
	for s, c := range r.running {
		switch {
		case c.stuck:
			next.Unable = append(next.Unable, s)
		case c.term != nil:
			next.Owned = append(next.Owned, s)
		case c.ready():
			next.Ready[s] = c.elector.Incarnation()
		}
	}
	now := time.Now()
	for s, u := range r.unable {
		if now.Before(u.until) {
			next.Unable = append(next.Unable, s)
		}
	}
	slices.Sort(next.Owned)
	slices.Sort(next.Unable)
	next.Unable = slices.Compact(next.Unable)
	next.Closed, next.Why = r.closing, ""
	if r.closing {
		next.Why = "stopping"
	} else if err := cmp.Or(r.silence(), r.m.unhealthy()); err != nil {
		next.Closed, next.Why = true, elector.Problem(err)
	}
	if same(next, r.self) {
		return
	}
	next.Seq++
	record := next.Record()
	r.mu.Lock()
	r.self, r.record = next, record
	r.mu.Unlock()
	r.wakeLinks()
}

func same(a, b group.Member) bool {
	return slices.Equal(a.Owned, b.Owned) && slices.Equal(a.Unable, b.Unable) && a.Closed == b.Closed && a.Why == b.Why && maps.Equal(a.Ready, b.Ready)
}

var errSilence = errors.New("no majority of the Redis nodes answers this member")

// silence returns errSilence when no majority of the nodes has answered within the time for which a
// member counts as alive. Its beats may still arrive, over a link that is slow or works in one
// direction, and it would be given shards although it does not receive the replies to its claims.
func (r *reconciler) silence() error {
	r.m.tooSlowToAssign.Store(r.lacksMajority(func(node int) bool { return r.took[node].best() <= r.m.cfg.assignerTrip() }))
	is := r.cutOff()
	r.m.silent.Store(is)
	if !is {
		return nil
	}
	for _, c := range r.running {
		if c.term == nil {
			c.cancel() // a plan that would end it can't arrive
		}
	}
	return errSilence
}
