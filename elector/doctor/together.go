package doctor

import (
	"cmp"
	"fmt"
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
		e.add("", "majority", LevelFail, e.back(), "%s: no leader can be elected, and a leader loses its lease", e.away())
	case up < n && up == e.majority:
		e.add("", "majority", LevelWarn, e.back(), "%s: when another one fails, no leader can be elected", e.away())
	case up < n:
		e.add("", "majority", LevelWarn, e.back(), "%s; %d more may fail", e.away(), up-e.majority)
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

// away is which nodes can't be used.
func (e *examination) away() string {
	var names []string
	what := "do not answer"
	for _, f := range e.facts {
		if f.Ping == nil {
			continue
		}
		names = append(names, f.Node)
		if quorum.Answered(f.Ping) {
			what = "can't be used"
		}
	}
	return fmt.Sprintf("%d of %d nodes %s (%s)", len(names), len(e.facts), what, list(names))
}

// back is how to get the nodes that don't answer: one that refuses us is up, and
// needs no restart.
func (e *examination) back() string {
	for _, f := range e.facts {
		if f.Ping == nil {
			continue
		}
		if advice := cmp.Or(quorum.Advice(f.Ping), unreachable(f.Node, f.Ping)); advice != "" {
			return advice
		}
	}
	return "bring them back"
}
