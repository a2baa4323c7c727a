package shard

import (
	"github.com/mandate-dev/mandate/elector/internal/group"
)

// Vacancy is a shard that no member reports as its own, and why that may be.
type Vacancy struct {
	Shard int    `json:"shard"`
	Next  string `json:"next,omitempty"` // the member that should own it; empty: none
	Why   string `json:"why"`
}

// lost are the shards that the plan still assigns to a dead member, with that member's id.
type lost map[int]string

func (l lost) add(id string, shards group.Set) {
	for _, s := range shards {
		l[s] = id
	}
}

// whyUnowned returns why no member may report a shard as its own.
func whyUnowned(shard int, next, gone string, members []group.Member, p *group.Plan) string {
	unable, closed := 0, 0
	for _, m := range members {
		if m.Closed {
			closed++
		} else if m.Unable.Has(shard) {
			unable++
		}
	}
	switch {
	case p == nil:
		return "there is no plan: no assigner leads"
	case closed == len(members):
		return "no member wants shards"
	case closed+unable == len(members):
		return "every member has failed at it lately"
	case gone != "":
		return gone + " lives no more, and the plan for the others is not made yet"
	case next == "":
		return "the plan assigns it to no member"
	default:
		return next + " does not own it yet: the lease of its last owner may still run"
	}
}
