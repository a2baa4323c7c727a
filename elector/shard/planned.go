package shard

import "github.com/mandate-dev/mandate/elector/internal/group"

// newest returns the plan in force: the latest plan of the term of which a majority of the nodes
// holds a plan, or if there is no such term, the latest plan of all. One node with a forged plan
// must not decide, and a node that is behind must not bring an older plan back.
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
