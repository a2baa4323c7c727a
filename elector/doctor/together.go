package doctor

import (
	"cmp"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// together are the checks that compare the nodes.
func (e *examination) together() {
	up, runs := 0, map[string]string{}
	var first, last *quorum.Facts
	for i := range e.facts {
		f := &e.facts[i]
		if f.Ping != nil {
			continue
		}
		up++
		if id := f.Info["run_id"]; id != "" && runs[id] != "" {
			e.add("", "same-server", LevelFail, "give every vote its own Redis: list another one",
				"%s and %s are one server", runs[id], f.Node)
		} else if id != "" {
			runs[id] = f.Node
		}
		if f.SkewErr == nil && (first == nil || f.Skew < first.Skew) {
			first = f
		}
		if f.SkewErr == nil && (last == nil || f.Skew > last.Skew) {
			last = f
		}
	}
	n := len(e.facts)
	switch {
	case up < e.majority:
		e.add("", "majority", LevelFail, e.back("bring Redis back")+"; until then no leader can be elected, and a leader loses its lease", "%d of %d nodes answer, %d are needed", up, n, e.majority)
	case up < n:
		e.add("", "majority", LevelWarn, e.back("bring the other ones back")+" before another one fails", "%d of %d nodes answer, %d are needed", up, n, e.majority)
	case n == 1:
		e.add("", "majority", LevelOK, "", "one node, and it answers; while it is down there is no leader")
	default:
		e.add("", "majority", LevelOK, "", "all %d nodes answer; %d may fail", n, n-e.majority)
	}
	if n == 1 || up < 2 {
		return
	}
	switch {
	case len(runs) == up:
		e.add("", "same-server", LevelOK, "", "the nodes are %d servers", up)
	case len(runs) == 0:
		e.add("", "same-server", LevelUnknown, "", "the nodes do not reveal their run_id; the election itself detects a server that is listed twice")
	}
	if first != nil && last.Skew-first.Skew > time.Second {
		e.add("", "clocks", LevelWarn, "run NTP on the nodes: a clock that is set frees locks early or late",
			"the clocks of %s and %s differ by %v", first.Node, last.Node, short(last.Skew-first.Skew))
	}
}

// back is how to get the nodes that don't answer: one that refuses us is up, and
// needs no restart.
func (e *examination) back(down string) string {
	for _, f := range e.facts {
		if f.Ping == nil {
			continue
		}
		if advice := cmp.Or(quorum.Advice(f.Ping), unreachable(f.Ping)); advice != "" {
			return advice
		}
	}
	return down
}
