package shard

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// look is what time alone changes: shards that this member may try again, loads, health.
func (r *reconciler) look() {
	now := time.Now()
	for s, u := range r.unable {
		// Twice as long as it lasted it is remembered, for the next one.
		if now.After(u.until.Add(r.m.cfg.Cooldown)) {
			delete(r.unable, s)
		}
	}
	for s, c := range r.running {
		if !c.stuck && c.overdue() && r.next[s] == r.me { // one that moves has its next owner waiting
			c.stuck = true
			r.m.log().Warn("the work of a shard does not stop; the shard is for other members", "shard", s)
		}
	}
	if r.next != nil {
		r.act()
	}
	r.report()
}

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
		default:
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
	next.Loads = r.loads.of(next.Owned)
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
	r.mu.Lock()
	r.self = next
	r.mu.Unlock()
	for i := range r.links {
		r.links[i].wake()
	}
}

// record is what the links send.
func (r *reconciler) record() group.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.self
}

func same(a, b group.Member) bool {
	return slices.Equal(a.Owned, b.Owned) && slices.Equal(a.Unable, b.Unable) && a.Closed == b.Closed && a.Why == b.Why && a.Cordoned == b.Cordoned && maps.Equal(a.Loads, b.Loads) && maps.Equal(a.Ready, b.Ready)
}

// cordon is what an operator has put on this member; nil: nothing.
func (r *reconciler) cordon() *quorum.Cordon {
	if r.standing == nil {
		return nil
	}
	return r.standing.Cordon()
}

// cordoned takes that the cordon of this member has changed. What campaigns ends: others would
// hand shards over to it.
func (r *reconciler) cordoned() {
	c := r.cordon()
	if e := r.assigner.Load(); e != nil && c != nil && c.Drain {
		if term := e.Term(); term != nil {
			term.Resign()
		}
	}
	if c != nil {
		for _, c := range r.running {
			if c.term == nil {
				c.cancel()
			}
		}
	}
	if r.next != nil {
		r.act()
	}
	r.report()
}

var errSilence = errors.New("no majority of the Redis nodes answers this member")

// silence is that no majority of the nodes has answered for as long as a member counts as
// alive. What it sends may arrive all the same, over a line that is slow or works one way: it
// would be given shards whose claims it could not hear granted.
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
