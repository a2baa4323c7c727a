package elector

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// What the nodes received of two terms, in seconds of each node's clock, and whether
// they overlap. A report that a node did not receive is never.
func TestOverlaps(t *testing.T) {
	const never = -1
	type seen struct{ elected, released float64 }
	type ended struct{ held, late float64 }
	type node struct{ a, b seen }
	sitting := seen{0, never}
	for name, c := range map[string]struct {
		a, b   *ended // nil: no node has received the end's report
		holder string
		nodes  []node
		want   bool
	}{
		"one after the other":                    {a: &ended{10, 0}, nodes: []node{{seen{1, 11}, seen{11.1, never}}}},
		"two led":                                {a: &ended{30, 0}, b: &ended{10, 0}, nodes: []node{{seen{1, 31}, seen{11, 21}}}, want: true},
		"the later one vanished":                 {a: &ended{30, 0}, nodes: []node{{seen{1, 31}, seen{11, never}}}, want: true},
		"the earlier one vanished":               {b: &ended{10, 0}, nodes: []node{{seen{1, never}, seen{11, 21}}}},
		"paused, reported late":                  {a: &ended{10, 50}, nodes: []node{{seen{1, 61}, seen{12, never}}}},
		"paused, its begin was not received":     {a: &ended{10, 50}, nodes: []node{{seen{never, 61}, seen{12, never}}}},
		"paused while it reported its end":       {a: &ended{10, 0}, nodes: []node{{seen{1, 61}, seen{12, never}}}},
		"within the tolerance":                   {a: &ended{10.9, 0}, nodes: []node{{seen{1, 12}, seen{11, never}}}},
		"beyond the tolerance":                   {a: &ended{11.1, 0}, nodes: []node{{seen{1, 13}, seen{11, never}}}, want: true},
		"holder, another began":                  {holder: "a", nodes: []node{{sitting, seen{11, never}}}, want: true},
		"holder, another began and ended":        {b: &ended{3, 0}, holder: "a", nodes: []node{{sitting, seen{11, 14}}}, want: true},
		"holder, another began at the same time": {holder: "a", nodes: []node{{sitting, seen{0.5, never}}}},
		"holder, one before it":                  {a: &ended{10, 0}, holder: "b", nodes: []node{{seen{1, 11}, seen{11, never}}}},
		"holder, one before it that overlapped":  {a: &ended{30, 0}, holder: "b", nodes: []node{{seen{1, 31}, seen{11, never}}}, want: true},
		"holder, one paused between its reports": {b: &ended{5, 60}, holder: "a", nodes: []node{{seen{40, never}, seen{80, 90}}}},
		"a begin known from the end":             {b: &ended{10, 0}, holder: "a", nodes: []node{{sitting, seen{never, 21}}}, want: true},
		"no node received both":                  {a: &ended{30, 0}, b: &ended{30, 0}, nodes: []node{{a: seen{1, 31}, b: seen{never, never}}, {a: seen{never, never}, b: seen{5, 35}}}},
		"one node received both": {a: &ended{30, 0}, b: &ended{30, 0}, want: true, nodes: []node{
			{seen{1, 31}, seen{5, 35}}, {seen{1, 31}, seen{never, never}}, {seen{never, never}, seen{5, 35}}}},
		"clocks of nodes that differ":          {a: &ended{10, 0}, nodes: []node{{seen{1, 11}, seen{11, never}}, {seen{5001, 5011}, seen{5011, never}}}},
		"a node's clock stood still":           {a: &ended{10, 0}, nodes: []node{{seen{1, 11}, seen{11, never}}, {seen{9, never}, seen{9, never}}}},
		"a node was suspended":                 {a: &ended{100, 0}, nodes: []node{{seen{1, 101}, seen{102, never}}, {seen{150, never}, seen{150, never}}}},
		"the end's report of an older version": {a: &ended{0, 0}, nodes: []node{{seen{1, 61}, seen{12, never}}}},
		"a forged end":                         {a: &ended{1e12, 0}, nodes: []node{{seen{1, 61}, seen{12, never}}}},
		"a forged end that comes early":        {a: &ended{5, -100}, nodes: []node{{seen{1, 61}, seen{12, never}}}},
	} {
		for _, swapped := range []bool{false, true} { // the tokens tell no order
			t.Run(fmt.Sprintf("%s/%v", name, swapped), func(t *testing.T) {
				ids := map[string]termID{"a": {token: 10, candidate: "a"}, "b": {token: 20, candidate: "b"}}
				if swapped {
					ids["a"], ids["b"] = termID{token: 20, candidate: "a"}, termID{token: 10, candidate: "b"}
				}
				sec := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
				at := func(s float64) time.Time {
					if s == never {
						return time.Time{}
					}
					return time.Unix(1_800_000_000, 0).Add(sec(s))
				}
				ends, late := map[termID]Event{}, map[string]time.Duration{}
				for who, e := range map[string]*ended{"a": c.a, "b": c.b} {
					if e != nil {
						ends[ids[who]] = Event{Held: sec(min(e.held, 9e9))}
						late[who] = sec(e.late)
					}
				}
				var received []map[termID]receipt
				for _, n := range c.nodes {
					received = append(received, map[termID]receipt{
						ids["a"]: {at(n.a.elected), at(n.a.released), late["a"]}, ids["b"]: {at(n.b.elected), at(n.b.released), late["b"]},
					})
				}
				var holder *termID
				if id, ok := ids[c.holder]; ok {
					holder = &id
				}
				got := overlaps(ends, received, holder)
				if a, b := ids["a"], ids["b"]; slices.Equal(got[a], []uint64{b.token}) != c.want || slices.Equal(got[b], []uint64{a.token}) != c.want {
					t.Errorf("%v, want %v", got, c.want)
				}
			})
		}
	}
}

// Candidates with different lists can be granted the same token: neither term hides the
// other.
func TestOverlapOfEqualTokens(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	a, b := termID{token: 7, candidate: "a"}, termID{token: 7, candidate: "b"}
	got := overlaps(map[termID]Event{a: {Held: time.Minute}}, []map[termID]receipt{{
		a: {at, at.Add(time.Minute), 0}, b: {at.Add(10 * time.Second), time.Time{}, 0},
	}}, nil)
	if !slices.Equal(got[a], []uint64{7}) || !slices.Equal(got[b], []uint64{7}) {
		t.Errorf("%v", got)
	}
}
