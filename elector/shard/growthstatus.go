package shard

import "github.com/mandate-dev/mandate/elector/internal/group"

// Growth is the growth of a group that grows, or whose members are configured for more shards.
type Growth struct {
	To int `json:"to"`
	// Waiting are the ids of members that are configured for a smaller number than To. The group
	// does not begin to grow while there are any.
	Waiting []string `json:"waiting,omitempty"`
	// From is the number of shards before the growth. 0: the group has not begun to grow.
	From int `json:"from,omitempty"`
	// Uncut are the shards that may still be owned as one of From. The new shards that were part
	// of such a shard have no owner until it is cut.
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
