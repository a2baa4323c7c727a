package peers

import (
	"slices"
	"testing"
	"time"
)

// The order is that of Semantic Versioning's own example, and more.
func TestVersionsAreOrdered(t *testing.T) {
	ordered := []string{
		"0.9.9", "v1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0",
		"v1.0.9", "1.0.10", "1.2.0", "1.10.0", "2.0.0-0.20261122090000-d6eeb56a1b2c", "2.0.0", "10.0.0", "10.0.18446744073709551616",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			order, ok := newer(a, b)
			if !ok || (order > 0) != (i > j) || (order < 0) != (i < j) {
				t.Errorf("%s and %s: %d, %t", a, b, order, ok)
			}
		}
	}
	if order, ok := newer("1.2.3+build.1", "v1.2.3+build.2"); order != 0 || !ok {
		t.Errorf("builds: %d, %t", order, ok)
	}
	for _, no := range []string{"", "v", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.-3", "+1.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "d6eeb56", "(devel)", "1.2.3 "} {
		if _, ok := parseVersion(no); ok {
			t.Errorf("%q is taken for a version", no)
		}
	}
}

// The next leader: by priority, then the newer version, then who has run longest. What is no semantic version is not
// older than anything.
func TestTheNewerVersionLeadsNext(t *testing.T) {
	candidate := func(id, version string, priority int, running time.Duration) Candidate {
		return Candidate{ID: id, Incarnation: id, Version: version, Priority: priority, Role: following, Healthy: true, RunningFor: running}
	}
	old, young := candidate("old", "1.9.0", 0, time.Hour), candidate("young", "1.10.0", 0, time.Second)
	for name, c := range map[string]struct {
		order Order
		all   []Candidate
		want  string
	}{
		"a newer version":             {BySeniority, []Candidate{old, young}, "young"},
		"of equals the longest there": {BySeniority, []Candidate{young, candidate("b", "1.10.0", 0, time.Minute), old}, "b"},
		"no version":                  {BySeniority, []Candidate{young, old, candidate("b", "main-d6eeb56", 0, time.Minute)}, "b"},
		"no versions":                 {BySeniority, []Candidate{candidate("a", "x", 0, time.Second), candidate("b", "", 0, time.Minute)}, "b"},
		"priority comes first":        {ByPriority, []Candidate{young, candidate("high", "0.1.0", 1, time.Second)}, "high"},
		"priority, then version":      {ByPriority, []Candidate{old, young}, "young"},
		"a ring has its own order":    {ByRotation, []Candidate{old, young}, "old"},
	} {
		for range 2 {
			var r roster
			for _, x := range c.all {
				r.note(x, time.Now())
			}
			if heir := r.heir(c.order, following, Candidate{ID: "me", Incarnation: "me"}); heir == nil || heir.ID != c.want {
				t.Errorf("%s: %+v", name, heir)
			}
			slices.Reverse(c.all)
		}
	}
}
