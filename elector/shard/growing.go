package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// Growing describes how far the group's growth is, and what holds it up: the members that are
// configured for fewer shards, or the owners whose shards are not cut yet. It is empty if the group
// does not grow. The ids of members in it are not escaped.
func (st Status) Growing() string {
	g := st.Growth
	switch {
	case g == nil:
		return ""
	case g.From > 0 && len(g.Uncut) == 0:
		return fmt.Sprintf("growing from %d to %d shards, all are cut", g.From, g.To)
	case g.From > 0:
		return fmt.Sprintf("growing from %d to %d shards, %d of %d cut: not yet %s", g.From, g.To, g.From-len(g.Uncut), g.From, st.uncut())
	case len(g.Waiting) > 0:
		return fmt.Sprintf("to grow from %d to %d shards, when all members are configured for that: not yet %s", st.Shards, g.To, some(g.Waiting))
	default:
		return fmt.Sprintf("to grow from %d to %d shards, once all members have been configured for that for a lease", st.Shards, g.To)
	}
}

// uncut lists the shards that are not cut yet, by owner.
func (st Status) uncut() string {
	var all []string
	left := st.Growth.Uncut
	for _, m := range st.Members {
		var its, others group.Set
		for _, s := range left {
			if slices.Contains(m.Owned, s) {
				its = append(its, s)
			} else {
				others = append(others, s)
			}
		}
		if len(its) > 0 {
			all = append(all, fmt.Sprintf("%v (%s)", its, m.ID))
		}
		left = others
	}
	if len(left) > 0 {
		all = append(all, fmt.Sprintf("%v (no owner)", group.Set(left)))
	}
	return some(all)
}

// some joins a list, shortened to fit on a line.
func some(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
