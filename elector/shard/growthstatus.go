package shard

import "github.com/mandate-dev/mandate/elector/internal/group"

// Growth is that of a group whose members are configured for a multiple of its shards.
type Growth struct {
	To int `json:"to"`
	// Waiting are the members that are configured for another number: while there are any, the
	// group does not begin to grow.
	Waiting []string `json:"waiting,omitempty"`
	// From is how many shards there were: the group grows. 0: it has not begun to.
	From int `json:"from,omitempty"`
	// Uncut are those that may still be owned as one of From. The new shards that are parts of
	// one have no owner until it is cut.
	Uncut []int `json:"uncut,omitempty"`
}

func growthOf(s group.Settings, members []group.Member, views []group.View, majority int) *Growth {
	if s.From > 0 {
		g := &Growth{To: s.Shards, From: s.From}
		for shard := range s.From {
			noted := 0
			for _, v := range views {
				if _, is := v.Cuts[shard]; is {
					noted++
				}
			}
			if noted < majority {
				g.Uncut = append(g.Uncut, shard)
			}
		}
		return g
	}
	g := &Growth{}
	for _, m := range members {
		g.To = max(g.To, m.Shards)
	}
	if g.To <= s.Shards {
		return nil
	}
	for _, m := range members {
		if m.Shards != g.To {
			g.Waiting = append(g.Waiting, m.ID)
		}
	}
	return g
}
