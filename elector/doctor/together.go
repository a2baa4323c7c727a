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

// together are the checks that compare the nodes.
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
		e.add("", "majority", LevelFail, e.back(), "%s: no leader can be elected, and a leader loses its lease", e.away())
	case refuse != "" && n > 1: // of one node its own finding is enough
		e.add("", "majority", LevelFail, remedy, "%s", refuse)
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

// away is which nodes can't be used, and why.
func (e *examination) away() string {
	what := ""
	why := e.byText(func(f *registry.Facts) string {
		if f.Ping == nil {
			return ""
		}
		if rediserr.Answered(f.Ping) {
			what = "can't be used"
		}
		return causeOf(f.Ping)
	})
	if what == "" {
		what = verb(why.nodes, "does not answer", "do not answer")
	}
	return fmt.Sprintf("%d of %d nodes %s (%s)", why.nodes, len(e.facts), what, why.text())
}

// back is how to get the nodes that don't answer: one that refuses us is up, and
// needs no restart.
func (e *examination) back() string {
	const which = "\x00" // in the place of the nodes
	how := e.byText(func(f *registry.Facts) string {
		if f.Ping == nil {
			return ""
		}
		return cmp.Or(rediserr.Advice(f.Ping), unreachable(which, f.Ping), "bring "+which+" back")
	})
	var all []string
	for _, advice := range how.texts {
		all = append(all, strings.ReplaceAll(advice, which, list(how.names[advice])))
	}
	return strings.Join(all, "; ")
}

// refusing is which nodes answer and take no lock, so that with those that don't answer no
// majority is left; and what helps. Both are empty when a majority would elect a leader.
func (e *examination) refusing(up int) (found, advice string) {
	why := e.byText(func(f *registry.Facts) string {
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
	if why.nodes == 0 || up-why.nodes >= e.majority {
		return "", ""
	}
	found = fmt.Sprintf("%d of %d nodes %s what an election writes (%s): no other leader can be elected", why.nodes, len(e.facts), verb(why.nodes, "refuses", "refuse"), why.text())
	advice = remedy(why.texts[0])
	if up < len(e.facts) {
		found, advice = e.away()+", and "+found, advice+"; "+e.back()
	}
	return found, advice
}

// byText is what there is to say of nodes, and of which ones.
type byText struct {
	texts []string            // in the order of the nodes
	names map[string][]string // of the nodes
	nodes int
}

// byText puts together the nodes of which a function says the same; "" is nothing.
func (e *examination) byText(of func(f *registry.Facts) string) byText {
	all := byText{names: map[string][]string{}}
	for i := range e.facts {
		text := of(&e.facts[i])
		if text == "" {
			continue
		}
		if all.names[text] == nil {
			all.texts = append(all.texts, text)
		}
		all.names[text] = append(all.names[text], e.facts[i].Node)
		all.nodes++
	}
	return all
}

// text is all of it, the names before each.
func (b byText) text() string {
	var all []string
	for _, text := range b.texts {
		all = append(all, list(b.names[text])+": "+text)
	}
	return strings.Join(all, "; ")
}

// verb agrees with the number of nodes.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
