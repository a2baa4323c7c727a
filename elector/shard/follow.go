package shard

import (
	"maps"
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// follow puts another plan in force, unless it is for another number of shards.
func (r *reconciler) follow(p *group.Plan) {
	if p.Shards != r.settings.Shards {
		if p.Shards != r.settings.From && r.m.cfg.Shards%p.Shards != 0 { // otherwise the group grows
			r.m.log().Warn("ignoring a plan for another number of shards", "shards", p.Shards)
		}
		return
	}
	r.plan, r.next = p, p.Assignees()
	r.me = slices.IndexFunc(p.Members, func(s group.PlanMember) bool { return s.Incarnation == r.m.incarnation })
	r.owner = p.Owners()
	owners := slices.Clone(r.owner)
	for s, o := range owners {
		if o == group.NoMember {
			owners[s] = r.next[s]
		}
	}
	r.m.noted(p, owners)
	r.inherit(p)
	r.mu.Lock()
	r.seen = p
	r.mu.Unlock()
	r.changed = true
}

// inherit takes over the loads that the last owners have measured of the shards that this member
// should own, and drops the loads of shards that it neither owns nor should own.
func (r *reconciler) inherit(p *group.Plan) {
	mine := func(s int) bool { return s >= 0 && s < len(r.next) && r.me != group.NoMember && r.next[s] == r.me }
	maps.DeleteFunc(r.meter, func(s int, _ measured) bool { return !mine(s) && r.running[s] == nil })
	if r.m.cfg.Load == nil {
		return
	}
	for s, l := range p.Loads {
		if c := r.running[s]; mine(s) && l >= 0 && (c == nil || c.term == nil) {
			r.meter.inherit(s, l)
		}
	}
}
