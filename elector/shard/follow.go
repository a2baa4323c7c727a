package shard

import (
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// follow puts another plan in force, unless it is for another number of shards.
func (r *reconciler) follow(p *group.Plan) {
	if p.Shards != r.m.cfg.Shards {
		r.m.log().Warn("ignoring a plan for another number of shards", "shards", p.Shards)
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
	r.mu.Lock()
	r.seen = p
	r.mu.Unlock()
	r.changed = true
}
