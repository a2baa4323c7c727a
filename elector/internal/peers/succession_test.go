package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Who goes first: one that could lead, in the order of succession; and where that
// does not decide, one and the same in the eyes of everybody. What is no semantic version is not older than anything.
func TestHeir(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	type change func(*entry)
	candidate := func(id string, running time.Duration, more ...change) entry {
		c := entry{Candidate{ID: id, Incarnation: id + "1", Role: Following, Healthy: true, RunningFor: running}, now}
		for _, f := range more {
			f(&c)
		}
		return c
	}
	role := func(s string) change { return func(c *entry) { c.Role = s } }
	rank := func(n int) change { return func(c *entry) { c.Priority = n } }
	version := func(v string) change { return func(c *entry) { c.Version = v } }
	unhealthy := func(c *entry) { c.Healthy = false }
	late := func(c *entry) { c.at = now.Add(time.Minute) } // its info came later: it began as much later
	old, young := candidate("old", time.Hour, version("1.9.0")), candidate("young", time.Second, version("1.10.0"))
	for name, c := range map[string]struct {
		by   Order
		all  []entry
		want string
	}{
		"no other":                     {by: BySeniority},
		"a race has none":              {by: Race, all: []entry{candidate("b", time.Hour)}},
		"not the leader itself":        {by: BySeniority, all: []entry{candidate("m", time.Hour), candidate("b", time.Minute)}, want: "b"},
		"not the unhealthy":            {by: BySeniority, all: []entry{candidate("c", time.Hour, unhealthy), candidate("b", time.Minute)}, want: "b"},
		"not those that rest, or stop": {by: BySeniority, all: []entry{candidate("c", time.Hour, role("resting")), candidate("d", time.Hour, role("stopping")), candidate("b", time.Minute)}, want: "b"},
		"the longest running":          {by: BySeniority, all: []entry{candidate("a", time.Minute), candidate("z", time.Hour)}, want: "z"},
		"by when it began":             {by: BySeniority, all: []entry{candidate("z", 90*time.Second, late), candidate("a", time.Minute)}, want: "a"},
		"of the same age, by id":       {by: BySeniority, all: []entry{candidate("b", time.Hour), candidate("a", time.Hour)}, want: "a"},
		"the highest":                  {by: ByPriority, all: []entry{candidate("a", time.Hour, rank(1)), candidate("z", time.Minute, rank(2))}, want: "z"},
		"of the highest the oldest":    {by: ByPriority, all: []entry{candidate("a", time.Minute, rank(2)), candidate("z", time.Hour, rank(2))}, want: "z"},
		"a newer version":              {by: BySeniority, all: []entry{old, young}, want: "young"},
		"of equals the longest there":  {by: BySeniority, all: []entry{young, candidate("b", time.Minute, version("1.10.0")), old}, want: "b"},
		"no version":                   {by: BySeniority, all: []entry{young, old, candidate("b", time.Minute, version("main-d6eeb56"))}, want: "b"},
		"no versions":                  {by: BySeniority, all: []entry{candidate("a", time.Second, version("x")), candidate("b", time.Minute)}, want: "b"},
		"priority comes first":         {by: ByPriority, all: []entry{young, candidate("high", time.Second, version("0.1.0"), rank(1))}, want: "high"},
		"priority, then version":       {by: ByPriority, all: []entry{old, young}, want: "young"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				r, got := roster{}, ""
				for _, c := range c.all {
					r.note(c.Candidate, c.at)
				}
				if f := r.heir(c.by, Candidate{ID: "m", Incarnation: "m1"}); f != nil {
					got = f.ID
				}
				if got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				slices.Reverse(c.all)
			}
		})
	}
	twins := roster{}
	for _, i := range []string{"2", "1", "3"} {
		twins.note(Candidate{ID: "a", Incarnation: i, Role: Following, Healthy: true}, now)
	}
	if got := twins.heir(BySeniority, Candidate{ID: "m"}); got.Incarnation != "1" {
		t.Errorf("of one id and age: %q", got.Incarnation)
	}
}

// A leader makes room for a candidate of higher priority only, and only for one that has
// been healthy for long: else leadership flaps.
func TestOutranks(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	const hold = 10 * time.Second
	for _, c := range []struct {
		priority int
		healthy  time.Duration // when its info came
		since    time.Duration // its info came
		want     bool
	}{
		{6, time.Hour, 0, true},
		{5, time.Hour, 0, false},
		{4, time.Hour, 0, false},
		{6, hold - 1, 0, false},
		{6, hold, 0, true},
		{6, hold / 2, hold / 2, true},
		{6, hold / 2, hold/2 - 1, false},
	} {
		r := roster{}
		r.note(Candidate{ID: "b", Incarnation: "b1", Role: Following, Healthy: true, Priority: c.priority, HealthyFor: c.healthy}, now.Add(-c.since))
		if got := r.outranks(Candidate{ID: "m", Incarnation: "m1", Priority: 5}, hold, now); (got != nil) != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if got := (roster{}).outranks(Candidate{Priority: -1}, hold, now); got != nil {
		t.Errorf("alone: %v", got)
	}
}

// A flood of forged candidates is bounded, and displaces none that is known; one that is
// not renewed for long is forgotten.
func TestRosterIsBounded(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	r := roster{}
	for i := range maxOthers + 5 {
		r.note(Candidate{Incarnation: fmt.Sprint(i)}, now)
	}
	if len(r) != maxOthers {
		t.Errorf("%d are kept", len(r))
	}
	later := now.Add(time.Second)
	if r.note(Candidate{Incarnation: "7", ID: "new"}, later); r["7"].ID != "new" {
		t.Error("what a known one publishes anew is dropped")
	}
	if r.forget(later, time.Second); len(r) != maxOthers {
		t.Errorf("%d are left, none has published nothing for too long", len(r))
	}
	if r.forget(later.Add(1), time.Second); len(r) != 1 || r["7"].ID != "new" {
		t.Errorf("%d are left, want the one", len(r))
	}
}

func TestShortFormIsNoVersion(t *testing.T) {
	for _, no := range []string{"", "v", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-a..b", "1.2.3+", "d6eeb56", "(devel)", "1.2.3 "} {
		if canonical(no) != "" {
			t.Errorf("%q is taken for a version", no)
		}
	}
	if canonical("1.2.3-rc.1+build") == "" || canonical("v1.2.3") == "" {
		t.Error("a version is not known as one")
	}
}
