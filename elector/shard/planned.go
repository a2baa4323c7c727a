package shard

import (
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// newest is the plan in force: the latest of the term of which a majority of the nodes
// has one, or else of the latest term. One node with a forged plan must not decide, and a
// node that is behind must not bring an older plan back.
func newest(byNode []*group.Plan, majority int) *group.Plan {
	var latest *group.Plan
	decided := false
	for _, p := range byNode {
		if p == nil {
			continue
		}
		same := 0
		for _, o := range byNode {
			if o != nil && o.Version.Token == p.Version.Token {
				same++
			}
		}
		switch {
		case same >= majority && !decided:
			latest, decided = p, true
		case decided && same < majority:
		case latest == nil || p.Version.After(latest.Version):
			latest = p
		}
	}
	return latest
}

// follow takes another plan.
func (r *reconciler) follow(p *group.Plan) {
	if p.Shards != r.m.cfg.Shards {
		r.m.log().Warn("ignoring a plan for another number of shards", "shards", p.Shards)
		return
	}
	r.plan, r.next = p, p.Assigned()
	r.me = slices.IndexFunc(p.Members, func(s group.PlanMember) bool { return s.Incarnation == r.m.incarnation })
	owners := p.Owners()
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

// known is the plan in force.
func (r *reconciler) known() *group.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}
