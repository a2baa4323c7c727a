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

// report brings what the links send up to date, and has it sent where it has changed.
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
	next.Loads = r.meter.of(next.Owned)
	next.Closed, next.Why = r.closing, ""
	next.Cordoned = ""
	if c := r.cordon(); c != nil && !c.Drain {
		next.Cordoned = c.String()
	}
	if r.closing {
		next.Why = "stopping"
	} else if c := r.cordon(); c != nil && c.Drain {
		next.Closed, next.Why = true, "drained "+c.String()
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
	for i := range r.links {
		r.links[i].wake()
	}
}

func same(a, b group.Member) bool {
	return slices.Equal(a.Owned, b.Owned) && slices.Equal(a.Unable, b.Unable) && a.Closed == b.Closed && a.Why == b.Why && a.Cordoned == b.Cordoned && maps.Equal(a.Loads, b.Loads) && maps.Equal(a.Ready, b.Ready)
}

var errSilence = errors.New("no majority of the Redis nodes answers this member")

// silence is that no majority of the nodes has answered for as long as a member counts as
// alive. What it sends may arrive all the same, over a line that is slow or works one way: it
// would be given shards whose claims it could not see granted.
func (r *reconciler) silence() error {
	r.m.far.Store(r.without(func(node int) bool { return r.took[node].best() <= r.m.cfg.assignerTrip() }))
	is := r.cutOff()
	r.m.silent.Store(is)
	if !is {
		return nil
	}
	for _, c := range r.running {
		if c.term == nil {
			c.cancel() // the plan that would end it does not arrive
		}
	}
	return errSilence
}
