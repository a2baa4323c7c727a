//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// term is one leadership, as its journal has it.
type term struct {
	who     string
	token   uint64
	command bool
	// proved is when it was certainly valid: validity never comes back, so it
	// held from the end of its first good answer to the start of its last one.
	// Nothing is proved by the record of the begin: a process can be stopped
	// between winning and writing it.
	proved  span
	first   time.Duration // its first good answer came after this: it was valid then, or later
	samples int
	// seen is when it may have been: for what is said of vacancies.
	seen span
}

// termsOf collects the terms, in the order of their tokens.
func termsOf(journal []Record, r *Report) []*term {
	byToken := map[uint64]*term{}
	for _, rec := range journal {
		if rec.Kind != Begin && rec.Kind != Valid {
			continue
		}
		t := byToken[rec.Token]
		if t == nil {
			t = &term{who: rec.Who, token: rec.Token, command: rec.Command, seen: span{rec.At, rec.At}}
			byToken[rec.Token] = t
		} else if rec.Kind == Begin {
			r.violated("token %d was given twice: to %s and to %s", rec.Token, t.who, rec.Who)
		}
		if t.who != rec.Who {
			r.violated("token %d is used by %s and by %s", rec.Token, t.who, rec.Who)
		}
		if rec.Kind == Valid {
			if t.samples == 0 {
				t.first, t.proved.from = rec.At, rec.Until
			}
			t.samples++
			t.proved.to = max(t.proved.from, rec.At)
			t.seen.to = max(t.seen.to, rec.Until)
		}
	}
	terms := make([]*term, 0, len(byToken))
	for _, t := range byToken {
		terms = append(terms, t)
	}
	slices.SortFunc(terms, func(a, b *term) int { return cmp.Compare(a.token, b.token) })
	return terms
}

// checkTokens wants terms to be valid in the order of their tokens: a later
// term has a larger one.
func checkTokens(terms []*term, r *Report) {
	var newest *term
	for _, t := range terms {
		if t.token == 0 {
			r.violated("%s leads with token 0", t.who)
		}
		if t.samples == 0 {
			continue
		}
		if newest != nil && t.proved.from < newest.first {
			r.violated("%s led with token %d %v before %s did with %d",
				t.who, t.token, newest.first-t.proved.from, newest.who, newest.token)
		}
		newest = t
	}
}

// checkOverlaps wants no two terms to be valid at one time. All processes share
// one clock, so there is nothing to forgive for drift. The command of a mandate run
// that was stopped, or that the machine let wait, is ended by its helper, a process that may
// have to wait for a processor: up to a twentieth of the lease is forgiven, and for how long
// processes were seen to wait meanwhile. It is counted.
func checkOverlaps(terms []*term, pauses map[string][]span, late []span, p Promise, r *Report) {
	for i, a := range terms {
		for _, b := range terms[i+1:] {
			both := a.proved.and(b.proved)
			if both.length() == 0 {
				continue
			}
			what := fmt.Sprintf("%s (token %d) and %s (token %d) were both valid for %v", a.who, a.token, b.who, b.token, both.length())
			waited := total(late, span{both.from - p.Lease, both.to})
			if both.length() <= p.Lease/20+waited && (excused(a, pauses) || excused(b, pauses) || waited > 0 && (a.command || b.command)) {
				r.Excused = append(r.Excused, what)
			} else {
				r.violated("%s", what)
			}
		}
	}
}

func excused(t *term, pauses map[string][]span) bool {
	return t.command && slices.ContainsFunc(pauses["cand:"+t.who], func(p span) bool { return p.and(t.proved).length() > 0 })
}

// pausesOf is when each target was broken.
func pausesOf(journal []Record) map[string][]span {
	broken := map[string][]span{}
	since := map[string]time.Duration{}
	for _, rec := range journal {
		switch rec.Kind {
		case Fault:
			if _, ok := since[rec.Target]; !ok {
				since[rec.Target] = rec.At
			}
		case Heal:
			if at, ok := since[rec.Target]; ok {
				broken[rec.Target] = append(broken[rec.Target], span{at, rec.At})
				delete(since, rec.Target)
			}
		default:
		}
	}
	end := journal[len(journal)-1].At
	for target, at := range since {
		broken[target] = append(broken[target], span{at, end})
	}
	return broken
}

// checkKept wants the next term after one that nothing could release to begin when the lock of that has lapsed, and not
// before. The servers count it in whole milliseconds and on clocks of their own: a hundredth of the lease is forgiven.
func checkKept(journal []Record, terms []*term, p Promise, r *Report) {
	for _, rec := range journal {
		if rec.Kind != Kept {
			continue
		}
		r.Kept++
		for _, t := range terms {
			if early := rec.Until - t.seen.from; t.token > rec.Token && early > p.Lease/100 {
				r.violated("%s (token %d) led %v before the lease of %s (token %d) had lapsed, although nothing could release that: %s",
					t.who, t.token, early, rec.Who, rec.Token, rec.Result)
			}
		}
	}
}
