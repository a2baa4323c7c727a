package shard

import (
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// follow takes another plan.
func (r *reconciler) follow(p *group.Plan) {
	if p.Shards != r.settings.Shards {
		if p.Shards != r.settings.From && r.m.cfg.Shards%p.Shards != 0 { // else it grows
			r.m.log().Warn("ignoring a plan for another number of shards", "shards", p.Shards)
		}
		return
	}
	r.plan, r.next = p, p.Assigned()
	r.me = slices.IndexFunc(p.Members, func(s group.PlanMember) bool { return s.Incarnation == r.m.incarnation })
	r.owner = p.Owners()
	owners := slices.Clone(r.owner)
	for s, o := range owners {
		if o == group.NoMember {
			owners[s] = r.next[s]
		}
	}
	r.m.noted(p, owners)
	r.mu.Lock()
	r.seen = p
	r.mu.Unlock()
	r.changed = true
}
