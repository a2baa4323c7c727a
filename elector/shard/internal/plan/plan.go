// Package plan computes which member of a group should own which shard. It is pure: the
// same input gives the same plan on every machine, so that two assigners at one time
// agree. Nothing depends on a plan but balance.
package plan

import (
	"cmp"
	"slices"
)

// Plan is who should own what.
type Plan struct {
	Target []int  // by shard: a member, or NoMember when none can
	Guest  []bool // as that of the Input, for the next plan
}

// Make makes a plan.
//
// A shard stays where it is planned, else where it is owned, if that member can serve it;
// the others go to the members that are farthest below their due. Then single shards move
// from a member above its due to one below, as long as each move makes the loads more even
// (the sum of load²/weight falls, so this ends). With equal loads this is the smallest
// number of moves: a shard moves only from a member with too many to one with too few.
func Make(in Input) Plan {
	p := newPlanner(in)
	var homeless []int
	for s := range in.Shards {
		switch {
		case p.kept[s]:
			p.target[s] = in.Owner[s]
		case p.serves(at(in.Planned, s), s):
			p.give(s, in.Planned[s])
		case p.serves(at(in.Owner, s), s):
			p.give(s, in.Owner[s])
		default:
			homeless = append(homeless, s)
		}
	}
	// The heaviest first: the light ones fill the gaps that remain.
	slices.SortStableFunc(homeless, func(a, b int) int { return cmp.Compare(p.loads[b], p.loads[a]) })
	for _, s := range homeless {
		p.give(s, p.lightest(s))
		p.guest[s] = len(in.Planned) > 0 // else it is new
	}
	p.level()
	return Plan{Target: p.target, Guest: p.guest}
}

// Limit is the part of a plan that may be carried out now: at most budget shards leave a
// member that owns them at one time. The moves of the plan in force, which the plan was made
// from, go on.
func Limit(p Plan, in Input, budget int) Plan {
	target, owner, published := p.Target, in.Owner, in.Planned
	now, guest := slices.Clone(target), slices.Clone(p.Guest)
	moves := func(s int) bool { return owner[s] != NoMember && target[s] != NoMember && owner[s] != target[s] }
	for s := range target {
		if moves(s) && at(published, s) == target[s] {
			budget--
		}
	}
	for s := range target {
		if !moves(s) || at(published, s) == target[s] {
			continue
		}
		if budget--; budget < 0 {
			now[s], guest[s] = owner[s], in.guest(s)
		}
	}
	return Plan{Target: now, Guest: guest}
}
