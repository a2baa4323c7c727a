//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Promise is what the election promised.
type Promise struct {
	Lease time.Duration
	// Vacancy is the longest time without a leader while one candidate is up and
	// reaches a majority of the nodes.
	Vacancy time.Duration
	Nodes   int
}

// Report is what a run was like, and what was wrong.
type Report struct {
	Lasted     time.Duration
	Terms      int // handovers, and one
	Samples    int // of valid terms
	Applied    int
	Refused    int // writes with an old token
	Lost       int // writes whose outcome is not known
	Reads      int
	Acts       map[string]int // what was done how often
	Vacancy    time.Duration  // the longest that Promise.Vacancy is about
	Excused    []string       // short overlaps of a command whose mandate run was stopped
	Violations []string
}

func (r *Report) violated(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

func (r Report) String() string {
	var acts []string
	for what, n := range r.Acts {
		acts = append(acts, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(acts)
	return fmt.Sprintf("%.0f s; %s; %d terms, %d samples of valid ones; %d writes applied, %d refused, %d lost, %d reads; "+
		"longest vacancy with a healthy candidate and majority %v; %d short overlaps of a command whose mandate run was stopped; %d violations",
		r.Lasted.Seconds(), strings.Join(acts, ", "), r.Terms, r.Samples, r.Applied, r.Refused, r.Lost, r.Reads,
		r.Vacancy.Round(time.Millisecond), len(r.Excused), len(r.Violations))
}

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

// lateness is when the machine let processes wait.
func lateness(journal []Record) (late []span) {
	for _, rec := range journal {
		if rec.Kind == Late {
			late = append(late, span{rec.At, rec.Until})
		}
	}
	return late
}

// total is how much of all of them lies within a span.
func total(all []span, within span) (sum time.Duration) {
	for _, s := range all {
		sum += s.and(within).length()
	}
	return sum
}

// span is a stretch of time.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration { return max(0, s.to-s.from) }

func (s span) and(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

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
// that was stopped, or that the machine let wait, is ended by its guard, a process that may
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
