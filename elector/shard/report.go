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
func (d *desk) look() {
	now := time.Now()
	for s, u := range d.unable {
		// Twice as long as it lasted it is remembered, for the next one.
		if now.After(u.until.Add(d.m.cfg.Cooldown)) {
			delete(d.unable, s)
		}
	}
	for s, c := range d.running {
		if !c.stuck && c.overdue() && d.next[s] == d.me { // one that moves has its next owner waiting
			c.stuck = true
			d.m.log().Warn("the work of a shard does not stop; the shard is for other members", "shard", s)
		}
	}
	if d.next != nil {
		d.act()
	}
	d.report()
}

// report brings what the links send up to date, and has it sent where it has changed.
func (d *desk) report() {
	next := d.self
	next.Owned, next.Unable, next.Ready = group.Set{}, group.Set{}, map[int]string{}
	for s, c := range d.running {
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
	for s, u := range d.unable {
		if now.Before(u.until) {
			next.Unable = append(next.Unable, s)
		}
	}
	slices.Sort(next.Owned)
	slices.Sort(next.Unable)
	next.Unable = slices.Compact(next.Unable)
	next.Loads = d.loads.of(next.Owned)
	next.Closed, next.Why = d.closing, ""
	next.Cordoned = ""
	if c := d.cordon(); c != nil && !c.Drain {
		next.Cordoned = c.String()
	}
	if d.closing {
		next.Why = "stopping"
	} else if c := d.cordon(); c != nil && c.Drain {
		next.Closed, next.Why = true, "drained "+c.String()
	} else if err := cmp.Or(d.silence(), d.m.unhealthy()); err != nil {
		next.Closed, next.Why = true, elector.Problem(err)
	}
	if same(next, d.self) {
		return
	}
	next.Seq++
	d.mu.Lock()
	d.self = next
	d.mu.Unlock()
	for i := range d.links {
		d.links[i].wake()
	}
}

// record is what the links send.
func (d *desk) record() group.Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.self
}

func same(a, b group.Member) bool {
	return slices.Equal(a.Owned, b.Owned) && slices.Equal(a.Unable, b.Unable) && a.Closed == b.Closed && a.Why == b.Why && a.Cordoned == b.Cordoned && maps.Equal(a.Loads, b.Loads) && maps.Equal(a.Ready, b.Ready)
}

// cordon is what an operator has put on this member; nil: nothing.
func (d *desk) cordon() *quorum.Cordon {
	if d.standing == nil {
		return nil
	}
	return d.standing.Cordon()
}

// cordoned takes that the cordon of this member has changed. What campaigns ends: others would
// hand shards over to it.
func (d *desk) cordoned() {
	c := d.cordon()
	if e := d.assigner.Load(); e != nil && c != nil && c.Drain {
		if term := e.Term(); term != nil {
			term.Resign()
		}
	}
	if c != nil {
		for _, c := range d.running {
			if c.term == nil {
				c.cancel()
			}
		}
	}
	if d.next != nil {
		d.act()
	}
	d.report()
}

var errSilence = errors.New("no majority of the Redis nodes answers this member")

// silence is that no majority of the nodes has answered for as long as a member counts as
// alive. What it sends may arrive all the same, over a line that is slow or works one way: it
// would be given shards whose claims it could not hear granted.
func (d *desk) silence() error {
	d.m.far.Store(d.without(func(node int) bool { return d.took[node].best() <= d.m.cfg.assignerTrip() }))
	is := d.cutOff()
	d.m.silent.Store(is)
	if !is {
		return nil
	}
	for _, c := range d.running {
		if c.term == nil {
			c.cancel() // the plan that would end it does not arrive
		}
	}
	return errSilence
}
