package simtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// totals add up what simulations did.
type totals struct {
	mu                                      sync.Mutex
	began, printed                          time.Time
	seeds, terms, renewals, refused, broken int
	together, beside                        int           // calls for several elections; terms in the elections beside
	groups, shards, moves                   int           // simulations of groups; terms of shards; of them, how many were handed over
	deploys, versions, warmed               int           // simulations of deploys; terms of candidates that refuse downgrades; how often one began to get warm
	virtual, worst                          time.Duration // worst: the longest recovery, for a lease of one second
	lasted                                  float64       // all of it, in leases
	modes, sizes, leases, ends, faults      map[string]int
	violations                              []string
}

func newTotals() *totals {
	return &totals{
		began: time.Now(), printed: time.Now(),
		modes: map[string]int{}, sizes: map[string]int{}, leases: map[string]int{}, ends: map[string]int{}, faults: map[string]int{},
	}
}

// enough reports whether the real time is over.
func (s *totals) enough(limit time.Duration) bool { return limit > 0 && time.Since(s.began) > limit }

// add takes a report, and says something every minute.
func (s *totals) add(t *testing.T, r Report) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds++
	s.virtual += r.Virtual
	s.lasted += r.Virtual.Seconds() / r.Lease.Seconds()
	s.terms += r.Terms
	s.renewals += r.Renewals
	s.refused += r.Refused
	s.together += r.Batches
	s.beside += r.BesideTerms
	s.shards += r.ShardTerms
	s.moves += r.Moves
	if r.Shards > 0 {
		s.groups++
	}
	s.versions += r.Versions
	s.warmed += r.Warmed
	if r.Deploys {
		s.deploys++
	}
	s.broken += len(r.Violations)
	for _, v := range r.Violations {
		s.violations = append(s.violations, fmt.Sprintf("seed %d (%s): %s", r.Seed, r.Mode, v))
	}
	s.worst = max(s.worst, time.Duration(float64(r.Recovery)/r.Lease.Seconds()))
	s.modes[r.Mode.String()]++
	s.sizes[fmt.Sprintf("%d nodes", r.Nodes)]++
	s.leases[r.Lease.String()]++
	for k, n := range r.Ends {
		s.ends[k] += n
	}
	for k, n := range r.Faults {
		s.faults[k] += n
	}
	if time.Since(s.printed) > time.Minute {
		s.printed = time.Now()
		t.Logf("so far: %s", s)
	}
}

func (s *totals) String() string {
	took := time.Since(s.began)
	faults := 0
	for _, n := range s.faults {
		faults += n
	}
	return fmt.Sprintf("%.0f virtual hours in %.1f minutes (%.0f hours per minute): %.0f leases, %d faults, %d terms, %d renewals, %d terms of shards in %d groups (%d handed over), %d terms beside, %d calls for several elections, %d terms with a version in %d simulations of deploys (%d times a candidate began to get warm), %d late writes refused, slowest recovery %.2f leases, VIOLATIONS: %d",
		s.virtual.Hours(), took.Minutes(), s.virtual.Hours()/took.Minutes(), s.lasted, faults, s.terms, s.renewals, s.shards, s.groups, s.moves, s.beside, s.together, s.versions, s.deploys, s.warmed, s.refused, s.worst.Seconds(), s.broken)
}

// table is one kind of counts.
type table struct {
	title  string
	counts map[string]int
}

func (s *totals) counts() []table {
	return []table{
		{"Simulations by mode", s.modes}, {"Simulations by number of nodes", s.sizes}, {"Simulations by lease", s.leases},
		{"Faults by kind", s.faults}, {"Terms by how they ended", s.ends},
	}
}

// byCount are the keys, the largest count first.
func byCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
}

func (s *totals) tables() string {
	var b strings.Builder
	for _, table := range s.counts() {
		fmt.Fprintf(&b, "\n%s:", table.title)
		for _, k := range byCount(table.counts) {
			fmt.Fprintf(&b, "\n  %7d  %s", table.counts[k], k)
		}
	}
	return b.String()
}
