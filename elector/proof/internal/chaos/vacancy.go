//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checkVacancies wants no vacancy to last longer than promised while one and the
// same candidate was up and reached a majority of the nodes.
//
// Each step to a new leader may have to wait for a processor: for that long it may take more.
func checkVacancies(journal []Record, terms []*term, late []span, p Promise, r *Report) {
	const waits = 4 // of the claim, of the nodes, of the answer, of the work
	fit := fitness(journal, p)
	for _, gap := range vacancies(journal, terms) {
		for who, spans := range fit {
			for _, s := range spans {
				both := gap.and(s)
				r.Vacancy = max(r.Vacancy, both.length())
				if both.length() > p.Vacancy+waits*total(late, both) {
					r.violated("no leader for %v from %v on, although %s was up and reached a majority; promised are %v",
						both.length().Round(time.Millisecond), (both.from - journal[0].At).Round(time.Millisecond), who, p.Vacancy)
				}
			}
		}
	}
}

// vacancies is when no candidate was seen to lead.
func vacancies(journal []Record, terms []*term) []span {
	seen := make([]span, 0, len(terms))
	for _, t := range terms {
		seen = append(seen, t.seen)
	}
	slices.SortFunc(seen, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var gaps []span
	last := journal[0].At
	for _, s := range seen {
		if s.from > last {
			gaps = append(gaps, span{last, s.from})
		}
		last = max(last, s.to)
	}
	return append(gaps, span{last, journal[len(journal)-1].At})
}

// fitness is when each candidate was up and reached a majority of nodes that
// were up. Targets are called cand:NAME, node:N and link:NAME:N.
func fitness(journal []Record, p Promise) map[string][]span {
	broken := map[string]bool{}
	since := map[string]time.Duration{} // fit from here on
	fit := map[string][]span{}
	names := map[string]bool{}
	for _, rec := range journal {
		if name, ok := strings.CutPrefix(rec.Target, "cand:"); ok {
			names[name] = true
		}
	}
	isFit := func(name string) bool {
		if broken["cand:"+name] {
			return false
		}
		reached := 0
		for n := range p.Nodes {
			if !broken["node:"+strconv.Itoa(n)] && !broken[fmt.Sprintf("link:%s:%d", name, n)] {
				reached++
			}
		}
		return reached > p.Nodes/2
	}
	look := func(at time.Duration) {
		for name := range names {
			from, was := since[name]
			switch now := isFit(name); {
			case now && !was:
				since[name] = at
			case was && !now:
				fit[name] = append(fit[name], span{from, at})
				delete(since, name)
			}
		}
	}
	for name := range names {
		broken["cand:"+name] = true // until it is said to be up
	}
	for _, rec := range journal {
		switch rec.Kind {
		case Fault:
			broken[rec.Target] = true
		case Heal:
			delete(broken, rec.Target)
		default:
			continue
		}
		look(rec.At)
	}
	for name := range since {
		fit[name] = append(fit[name], span{since[name], journal[len(journal)-1].At})
	}
	return fit
}
