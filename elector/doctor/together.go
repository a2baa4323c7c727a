package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// together checks the nodes against each other.
func (e *examination) together() {
	up, runs := 0, map[string]string{}
	var first, last *registry.Facts
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
	refuse, remedy := e.refusing(up)
	switch {
	case up < e.majority:
		e.add("", "majority", LevelFail, e.recoveryAdvice(), "%s: no leader can be elected, and a leader loses its lease", e.unavailable())
	case refuse != "" && n > 1: // for a single node, the node's own finding is enough
		e.add("", "majority", LevelFail, remedy, "%s", refuse)
	case up < n && up == e.majority:
		e.add("", "majority", LevelWarn, e.recoveryAdvice(), "%s: when another one fails, no leader can be elected", e.unavailable())
	case up < n:
		e.add("", "majority", LevelWarn, e.recoveryAdvice(), "%s; %d more may fail", e.unavailable(), up-e.majority)
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

// unavailable reports which nodes can't be used, and why.
func (e *examination) unavailable() string {
	what := ""
	why := e.each(func(f *registry.Facts) string {
		if f.Ping == nil {
			return ""
		}
		if rediserr.Answered(f.Ping) {
			what = "can't be used"
		}
		return causeOf(f.Ping)
	})
	if what == "" {
		what = verb(len(why), "does not answer", "do not answer")
	}
	return fmt.Sprintf("%d of %d nodes %s (%s)", len(why), len(e.facts), what, strings.Join(why, "; "))
}

// recoveryAdvice returns the advice how to get the first of the nodes back that can't be used. A node
// that refuses this user is up, and needs no restart.
func (e *examination) recoveryAdvice() string {
	for _, f := range e.facts {
		if f.Ping != nil {
			return cmp.Or(rediserr.Advice(f.Ping), unreachable(f.Node, f.Ping), "bring "+f.Node+" back")
		}
	}
	return ""
}

// refusing reports which nodes answer but refuse the writes of an election, and returns the advice for
// them. Both are empty if the remaining nodes are a majority, which can elect a leader.
func (e *examination) refusing(up int) (found, advice string) {
	why := e.each(func(f *registry.Facts) string {
		if f.Ping != nil || f.LooksOnly {
			return ""
		}
		refused := ""
		if i := slices.IndexFunc(f.Refused, needed); i >= 0 {
			_, refused, _ = strings.Cut(f.Refused[i], ": ")
		}
		if f.EvalErr != nil {
			refused = problemOf(f.EvalErr)
		}
		return strings.TrimRight(refused, ".")
	})
	if len(why) == 0 || up-len(why) >= e.majority {
		return "", ""
	}
	found = fmt.Sprintf("%d of %d nodes %s what an election writes (%s): no other leader can be elected",
		len(why), len(e.facts), verb(len(why), "refuses", "refuse"), strings.Join(why, "; "))
	advice = remedy(why[0])
	if up < len(e.facts) {
		found, advice = e.unavailable()+", and "+found, advice+"; "+e.recoveryAdvice()
	}
	return found, advice
}

// each returns a text about each node for which of has one, after the node's name.
func (e *examination) each(of func(f *registry.Facts) string) (all []string) {
	for i := range e.facts {
		if text := of(&e.facts[i]); text != "" {
			all = append(all, e.facts[i].Node+": "+text)
		}
	}
	return all
}

// verb returns the form of a verb for n nodes.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
