package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// together checks the nodes against each other.
func (e *examination) together() {
	var unfit []string
	advice := ""
	runs := map[string]string{}
	for i := range e.facts {
		f := &e.facts[i]
		if why := unfitBecause(f); why != "" && (f.Ping != nil || len(e.facts) > 1) { // for a single node, its own finding is enough
			unfit = append(unfit, f.Node+": "+why)
			advice = cmp.Or(advice, e.cure(f), "bring "+f.Node+" back")
		}
		if id := f.Info["run_id"]; id != "" && runs[id] != "" {
			e.add("", "same-server", LevelFail, "give every vote its own Redis: list another one",
				"%s and %s are one server", runs[id], f.Node)
		} else if id != "" {
			runs[id] = f.Node
		}
	}
	n, up := len(e.facts), len(e.facts)-len(unfit)
	why := fmt.Sprintf("%d of %d nodes can't be used (%s)", len(unfit), n, strings.Join(unfit, "; "))
	switch {
	case up < e.majority:
		e.add("", "majority", LevelFail, advice, "%s: no leader can be elected", why)
	case up < n && up == e.majority:
		e.add("", "majority", LevelWarn, advice, "%s: when another one fails, no leader can be elected", why)
	case up < n:
		e.add("", "majority", LevelWarn, advice, "%s; %d more may fail", why, up-e.majority)
	case n == 1:
		e.add("", "majority", LevelOK, "", "one node, and it answers; while it is down there is no leader")
	default:
		e.add("", "majority", LevelOK, "", "all %d nodes answer; %d may fail", n, n-e.majority)
	}
	if n > 1 && len(runs) == n {
		e.add("", "same-server", LevelOK, "", "the nodes are %d servers", n)
	}
}

// unfitBecause returns why a node can't vote; empty: it can.
func unfitBecause(f *registry.Facts) string {
	refused := slices.IndexFunc(f.Refused, needed)
	switch {
	case f.Ping != nil:
		return causeOf(f.Ping)
	case f.LooksOnly:
		return ""
	case f.EvalErr != nil:
		return strings.TrimRight(problemOf(f.EvalErr), ".")
	case refused >= 0:
		_, answer, _ := strings.Cut(f.Refused[refused], ": ")
		return strings.TrimRight(answer, ".")
	default:
		return ""
	}
}
