//go:build linux

package chaos

import (
	"cmp"
	"slices"
)

// Check proves a journal, whose records are in the order of their times.
func Check(journal []Record, p Promise) Report {
	r := Report{Acts: map[string]int{}}
	if len(journal) == 0 {
		r.violated("the journal is empty: nothing is proved")
		return r
	}
	r.Lasted = journal[len(journal)-1].At - journal[0].At
	for _, rec := range journal {
		switch rec.Kind {
		case Act:
			r.Acts[rec.Result]++
		case Valid:
			r.Samples++
		case Read:
			r.Reads++
		default: // counted by the rules
		}
	}
	terms := termsOf(journal, &r)
	r.Terms = len(terms)
	checkTokens(terms, &r)
	late := lateness(journal)
	checkOverlaps(terms, pausesOf(journal), late, p, &r)
	checkVacancies(journal, terms, late, p, &r)
	checkRegister(journal, &r)
	return r
}

// checkTerms proves of a journal in any order only that terms come one after the other, and none too early.
func checkTerms(journal []Record, p Promise) (r Report) {
	slices.SortStableFunc(journal, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	terms := termsOf(journal, &r)
	r.Terms = len(terms)
	checkTokens(terms, &r)
	checkOverlaps(terms, nil, lateness(journal), p, &r)
	checkKept(journal, terms, p, &r)
	return r
}

// lateness is when the machine let processes wait.
func lateness(journal []Record) (late []span) {
	for _, rec := range journal {
		if rec.Kind == Late {
			late = append(late, span{rec.At, rec.Until})
		}
	}
	return late
}
