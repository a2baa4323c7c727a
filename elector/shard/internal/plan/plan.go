// Package plan computes which member of a group should own which shard. It is pure: the
// same input gives the same plan on every machine, so that two assigners at one time
// agree. Only balance depends on a plan.
package plan

import (
	"cmp"
	"slices"
)

// Plan assigns shards to members.
type Plan struct {
	Target []int  // by shard: the member that should own it, or NoMember when none can
	Guest  []bool // the Input.Guest of the next plan
}

// Make makes a plan.
//
// A shard stays with the member that it is planned for, or else with its owner, if that member
// can serve it. The other shards go to the members that are farthest below their due. Then single
// shards move from a member above its due to one below, as long as each move makes the loads more
// even (the sum of load²/weight falls, so this ends). With equal loads this is the smallest
// number of moves: a shard moves only from a member with too many to one with too few.
func Make(in Input) Plan {
	p := newPlanner(in)
	var homeless []int
	for s := range in.Shards {
		switch {
		case p.serves(at(in.Planned, s), s):
			p.give(s, in.Planned[s])
		case p.serves(at(in.Owner, s), s):
			p.give(s, in.Owner[s])
		default:
			homeless = append(homeless, s)
		}
	}
	// The heaviest shards come first, so that the light ones fill the remaining gaps.
	slices.SortStableFunc(homeless, func(a, b int) int { return cmp.Compare(p.loads[b], p.loads[a]) })
	for _, s := range homeless {
		p.give(s, p.lightest(s))
		p.guest[s] = len(in.Planned) > 0 // without a plan before, the shard has no former member
	}
	p.level()
	return Plan{Target: p.target, Guest: p.guest}
}

// Limit returns the part of a plan that may be carried out now: at most budget shards leave
// their owners at one time. Moves that the plan in force (Input.Planned) has begun continue, and
// use up the budget first.
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
