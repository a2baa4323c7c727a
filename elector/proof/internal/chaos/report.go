//go:build linux

package chaos

import (
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
	Kept       int            // terms that nothing could release
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
