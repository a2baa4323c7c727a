package main

import (
	"fmt"

	"github.com/mandate-dev/mandate/elector"
)

// mostCandidates leaves room for the events.
const mostCandidates = 8

// candidates are those beside the leader.
func (v *liveView) candidates(width int) []string {
	if v.roll.denied {
		return []string{v.paper.dim(cutEnd("candidate not shown: the Redis user may not call the roll (docs/redis.md)", width))}
	}
	var lines []string
	for _, c := range v.roll.all {
		if v.st.Leader != nil && c.ID == v.st.Leader.Candidate {
			continue
		}
		if len(lines) == mostCandidates {
			lines = append(lines, v.paper.dim(cutEnd(fmt.Sprintf("candidate and others, %d in all: mandate candidates %s", len(v.roll.all), v.election), width)))
			break
		}
		role := string(c.Role)
		if c.Role == elector.RoleLeading { // when the roll was called; now another one does, or nobody
			role = "led when it last answered"
		}
		s := cutEnd(fmt.Sprintf("candidate %-24s %s", cut(c.ID, 24), role), width)
		if !c.Healthy {
			s = v.paper.paint("33", cutEnd(fmt.Sprintf("candidate %-24s %s, unhealthy: %s", cut(c.ID, 24), role, c.Detail), width))
		}
		lines = append(lines, s)
	}
	return lines
}
