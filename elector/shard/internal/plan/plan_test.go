package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func members(n int) []Member {
	var all []Member
	for i := range n {
		all = append(all, Member{ID: fmt.Sprintf("worker-%d", i), Weight: 1})
	}
	return all
}

func noMembers(n int) []int { return slices.Repeat([]int{NoMember}, n) }

func counts(plan []int, n int) []int {
	c := make([]int, n)
	for _, m := range plan {
		if m != NoMember {
			c[m]++
		}
	}
	return c
}

func moves(before, after []int) int {
	n := 0
	for s := range before {
		if before[s] != NoMember && before[s] != after[s] {
			n++
		}
	}
	return n
}

// With equal weights no member has more than one shard above another, whatever the number of
// shards and members, and which of them came or went before.
func TestEven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		shards, n := 1+r.IntN(300), 1+r.IntN(12)
		owner := noMembers(shards)
		for s := range owner {
			if r.IntN(3) > 0 {
				owner[s] = r.IntN(n)
			}
		}
		got := Make(Input{Members: members(n), Shards: shards, Owner: owner}).Target
		c := counts(got, n)
		if slices.Max(c)-slices.Min(c) > 1 || slices.Contains(got, NoMember) {
			t.Fatalf("%d shards over %d members: %v", shards, n, c)
		}
		// The fewest moves: what each has beyond its even part.
		need := 0
		before := counts(owner, n)
		slices.SortFunc(before, func(a, b int) int { return b - a })
		for i, b := range before {
			part := shards / n
			if i < shards%n {
				part++
			}
			need += max(0, b-part)
		}
		if m := moves(owner, got); m != need {
			t.Fatalf("%d shards over %d members: %d moves, %d are enough", shards, n, m, need)
		}
	}
}

// The order in which the members are named changes nothing: two assigners agree.
func TestOrderOfMembers(t *testing.T) {
	a := members(6)
	b := slices.Clone(a)
	slices.Reverse(b)
	one, two := Make(Input{Members: a, Shards: 100}).Target, Make(Input{Members: b, Shards: 100}).Target
	for s := range one {
		if a[one[s]].ID != b[two[s]].ID {
			t.Fatalf("shard %d: %s and %s", s, a[one[s]].ID, b[two[s]].ID)
		}
	}
}

func TestWeights(t *testing.T) {
	m := members(4)
	m[0].Weight, m[1].Weight = 4, 2
	got := counts(Make(Input{Members: m, Shards: 80}).Target, 4)
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
		in := Input{Shards: 1 + r.IntN(20)}
		open := false
		for m := range 1 + r.IntN(4) {
			closed := r.IntN(5) == 0
			open = open || !closed
			in.Members = append(in.Members, Member{ID: strconv.Itoa(m), Weight: weights[r.IntN(len(weights))], Closed: closed})
		}
		for range in.Shards {
			in.Owner = append(in.Owner, r.IntN(len(in.Members)+1)-1)
			in.Planned = append(in.Planned, r.IntN(len(in.Members)+1)-1)
		}
		for s, m := range Limit(Make(in), in, 3).Target {
			if m == NoMember && open {
				t.Errorf("seed %d: shard %d is for no member", seed, s)
			}
		}
	}
}

func TestUnable(t *testing.T) {
	m := members(3)
	m[0].Unable = []int{0, 1, 2, 3}
	m[1].Unable = []int{0}
	m[2].Unable = []int{0}
	got := Make(Input{Members: m, Shards: 9, Owner: noMembers(9), Planned: noMembers(9)}).Target
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
	in := Input{Members: members(4), Shards: 40, Owner: noMembers(40)}
	in.Owner = Make(in).Target
	in.Planned = in.Owner
	of1 := in.Owner
	in.Members[1].Closed = true
	gone := Make(in)
	in.Members[1] = Member{ID: "another", Weight: 1}
	in.Owner, in.Planned, in.Guest = gone.Target, gone.Target, gone.Guest
	back := Make(in)
	for s := range back.Target {
		if back.Target[s] != of1[s] || back.Guest[s] {
			t.Errorf("shard %d was at %d, then at %d, and is at %d, a guest: %v", s, of1[s], gone.Target[s], back.Target[s], back.Guest[s])
		}
	}
}

func TestLimit(t *testing.T) {
	owner := []int{0, 0, 0, 0, NoMember, 1}
	target := []int{1, 1, 1, 0, 1, 1}
	limit := func(published []int) []int {
		return Limit(Plan{Target: target, Guest: make([]bool, 6)}, Input{Owner: owner, Planned: published}, 1).Target
	}
	got := limit(nil)
	if want := []int{1, 0, 0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: one move at a time, and what has no owner at once", got, want)
	}
	// The move under way counts, and is not exchanged for another one.
	got = limit([]int{0, 0, 1, 0, 1, 1})
	if want := []int{0, 0, 1, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: the move under way", got, want)
	}
}
