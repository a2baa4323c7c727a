package group

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func members(n int) []Member {
	var all []Member
	for i := range n {
		all = append(all, Member{ID: fmt.Sprintf("worker-%d", i), Incarnation: strconv.Itoa(i), Weight: 1})
	}
	return all
}

// free is a number of moves that limits nothing.
const free = math.MaxInt

func counts(plan []int, n int) []int {
	c := make([]int, n)
	for _, m := range plan {
		if m != NoMember {
			c[m]++
		}
	}
	return c
}

// With equal weights no member has more than one shard above another, whatever the number of
// shards and members, and which of them came or went before.
func TestEven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		shards, n := 1+r.IntN(300), 1+r.IntN(12)
		all := members(n)
		for s := range shards {
			if r.IntN(3) > 0 {
				m := &all[r.IntN(n)]
				m.Owned = append(m.Owned, s)
			}
		}
		p := NewPlan(all, shards, &Plan{}, free)
		c := counts(p.Assignees(), n)
		if slices.Max(c)-slices.Min(c) > 1 || slices.Contains(p.Assignees(), NoMember) {
			t.Fatalf("%d shards over %d members: %v", shards, n, c)
		}
		// The fewest moves: what each has beyond its even part.
		need, moves := 0, 0
		slices.SortFunc(all, func(a, b Member) int { return len(b.Owned) - len(a.Owned) })
		for i, m := range all {
			part := shards / n
			if i < shards%n {
				part++
			}
			need += max(0, len(m.Owned)-part)
		}
		for s, owner := range p.Owners() {
			if owner != NoMember && p.Assignees()[s] != owner {
				moves++
			}
		}
		if moves != need {
			t.Fatalf("%d shards over %d members: %d moves, %d are enough", shards, n, moves, need)
		}
	}
}

func TestWeights(t *testing.T) {
	m := members(4)
	m[0].Weight, m[1].Weight = 4, 2
	got := counts(NewPlan(m, 80, &Plan{}, free).Assignees(), 4)
	if want := []int{40, 20, 10, 10}; !slices.Equal(got, want) {
		t.Errorf("weights 4, 2, 1, 1 of 80 shards: %v, want %v", got, want)
	}
}

// Regression: next to a weight that nothing can be divided by, the assigner panicked: and so did each
// member that became the assigner after it.
func TestExtremeWeights(t *testing.T) {
	weights := []float64{math.SmallestNonzeroFloat64, 1e-320, 1e-300, 1e-9, 1, 1e9, 1e300, math.MaxFloat64}
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 0))
		all, shards := members(1+r.IntN(4)), 1+r.IntN(20)
		last, open := &Plan{Shards: shards}, false
		for i := range all {
			all[i].Weight = weights[r.IntN(len(weights))]
			if r.IntN(5) == 0 {
				all[i].Closed = "stopping"
			}
			open = open || all[i].Closed == ""
			last.Members = append(last.Members, Assigned{Member: all[i]})
		}
		for s := range shards {
			if i := r.IntN(len(all) + 1); i < len(all) {
				all[i].Owned = append(all[i].Owned, s)
			}
			if i := r.IntN(len(all) + 1); i < len(all) {
				last.Members[i].Planned = append(last.Members[i].Planned, s)
			}
		}
		for s, m := range NewPlan(all, shards, last, 3).Assignees() {
			if m == NoMember && open {
				t.Errorf("seed %d: shard %d is for no member", seed, s)
			}
		}
	}
}

func TestUnable(t *testing.T) {
	m := members(3)
	m[0].Unable = Set{0, 1, 2, 3}
	m[1].Unable = Set{0}
	m[2].Unable = Set{0}
	got := NewPlan(m, 9, &Plan{}, free).Assignees()
	if got[0] != NoMember {
		t.Errorf("shard 0, which no member can serve, is planned for %d", got[0])
	}
	for s := 1; s < 4; s++ {
		if got[s] == 0 || got[s] == NoMember {
			t.Errorf("shard %d is planned for %d", s, got[s])
		}
	}
	if c := counts(got, 3); slices.Max(c)-slices.Min(c) > 1 {
		t.Errorf("not even: %v", c)
	}
}

// Who comes after one that has gone is given the shards of that one, and no other
// else moves any.
func TestGuestsMoveFirst(t *testing.T) {
	all := members(4)
	before := NewPlan(all, 40, &Plan{}, free)
	owned := func(p *Plan) {
		for i := range all {
			all[i].Owned = p.Members[i].Planned
		}
	}
	owned(before)
	all[1].Closed = "stopping"
	gone := NewPlan(all, 40, before, free)
	owned(gone)
	all[1] = Member{ID: "another", Incarnation: "another", Weight: 1}
	back := NewPlan(all, 40, gone, free)
	if !slices.Equal(back.Assignees(), before.Assignees()) || len(back.Guests) > 0 {
		t.Errorf("before %v, then %v with the guests %v, and then %v with the guests %v",
			before.Assignees(), gone.Assignees(), gone.Guests, back.Assignees(), back.Guests)
	}
}

func TestLimit(t *testing.T) {
	limit := func(planned []int) []int {
		p := &planner{
			owner: []int{0, 0, 0, 0, NoMember, 1}, target: []int{1, 1, 1, 0, 1, 1}, planned: planned,
			guest: make([]bool, 6), wasGuest: make([]bool, 6),
		}
		p.limit(1)
		return p.target
	}
	got := limit(none(6))
	if want := []int{1, 0, 0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: one move at a time, and what has no owner at once", got, want)
	}
	// The move under way counts, and is not exchanged for another one.
	got = limit([]int{0, 0, 1, 0, 1, 1})
	if want := []int{0, 0, 1, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: the move under way", got, want)
	}
}

// A member with another protocol is refused like one with other settings, and told why.
func TestSettingsNameTheirProtocol(t *testing.T) {
	ours := NewSettings(3, 10*time.Second)
	other := ours
	if other.Protocol++; other == ours || !strings.Contains(other.String(), "protocol 2, and this program has protocol 1") || strings.Contains(ours.String(), "protocol") {
		t.Errorf("%s, %s", ours, other)
	}
}
