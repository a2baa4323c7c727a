package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

func TestJoinAndLeave(t *testing.T) {
	const shards = 1024
	first := Make(Input{Members: members(7), Shards: shards, Owner: noMembers(shards)}).Target
	joined := Make(Input{Members: members(8), Shards: shards, Owner: first, Planned: first}).Target
	if m := moves(first, joined); m != shards/8 {
		t.Errorf("a join moved %d shards of %d, %d are enough", m, shards, shards/8)
	}
	gone := members(8)
	gone[3].Closed = true
	left := Make(Input{Members: gone, Shards: shards, Owner: joined, Planned: joined}).Target
	if m := moves(joined, left); m != shards/8 {
		t.Errorf("a leave moved %d shards, %d are enough", m, shards/8)
	}
	c := counts(left, 8)
	if c[3] != 0 || slices.Max(c)-146 > 1 {
		t.Errorf("after the leave: %v", c)
	}
}

// Whatever is even stays where it is.
func TestStill(t *testing.T) {
	in := Input{Members: members(5), Shards: 64, Owner: noMembers(64)}
	first := Make(in).Target
	in.Owner, in.Planned = first, first
	if again := Make(in).Target; !slices.Equal(first, again) {
		t.Errorf("a plan that is even was changed: %v, then %v", first, again)
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

// With measured loads the fullest member has at most 1.1 times its due, where the shards'
// sizes allow that.
func TestLoads(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for run := range 100 {
		n, shards := 2+r.IntN(9), 200+r.IntN(400)
		loads := make([]float64, shards)
		total := 0.0
		for s := range loads {
			loads[s] = math.Exp(r.NormFloat64()) // a few are ten times as heavy as most
			total += loads[s]
		}
		m := members(n)
		weights := 0.0
		for i := range m {
			m[i].Weight = 1 + float64(r.IntN(3))
			weights += m[i].Weight
		}
		owner := noMembers(shards)
		for s := range owner {
			owner[s] = r.IntN(n)
		}
		got := Make(Input{Members: m, Loads: loads, Shards: shards, Owner: owner}).Target
		sum := make([]float64, n)
		for s, at := range got {
			sum[at] += loads[s]
		}
		for i := range m {
			if due := total * m[i].Weight / weights; sum[i] > 1.1*due {
				t.Errorf("run %d: member %d of %d has %.2f times its due", run, i, n, sum[i]/due)
			}
		}
	}
}

// A load that changes a little moves nothing.
func TestLoadsHysteresis(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	loads := make([]float64, 400)
	for s := range loads {
		loads[s] = 1 + r.Float64()
	}
	in := Input{Members: members(8), Loads: loads, Shards: 400}
	first := Make(in).Target
	in.Owner, in.Planned = first, first
	for s := range loads {
		loads[s] *= 0.98 + 0.04*r.Float64()
	}
	if m := moves(first, Make(in).Target); m != 0 {
		t.Errorf("loads that changed by 2 %% moved %d shards", m)
	}
}

// A member with more than 1.1 times its due is relieved by a move or an exchange that leaves both within that,
// also where it gains less than it moves.
func TestRelief(t *testing.T) {
	for name, loads := range map[string][2][]float64{
		"a move":      {{30, 30, 30, 30}, {26, 26, 27}},
		"an exchange": {{120, 110, 110}, {80, 90, 90}},
	} {
		in := Input{Members: members(2), Loads: slices.Concat(loads[0], loads[1])}
		in.Shards = len(in.Loads)
		in.Owner = append(slices.Repeat([]int{0}, len(loads[0])), slices.Repeat([]int{1}, len(loads[1]))...)
		in.Planned = in.Owner
		var sum [2]float64
		for s, at := range Make(in).Target {
			sum[at] += in.Loads[s]
		}
		if due := (sum[0] + sum[1]) / 2; max(sum[0], sum[1]) > 1.1*due {
			t.Errorf("%s: %v, the due is %v", name, sum, due)
		}
	}
}

// Loads that are equal but for noise move nothing, also where the shards do not divide evenly, and
// leave no member with two shards more than another one.
func TestNoiseMovesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for shards := 3; shards < 40; shards++ {
		for n := 2; n < 6; n++ {
			in := Input{Members: members(n), Shards: shards, Owner: noMembers(shards), Planned: noMembers(shards), Loads: make([]float64, shards)}
			for run := range 50 {
				for s := range in.Loads {
					in.Loads[s] = 1 + 0.04*(2*r.Float64()-1)
				}
				got := Make(in).Target
				if moved := moves(in.Planned, got); run > 0 && moved > 0 {
					t.Fatalf("%d shards, %d members: noise moved %d shards", shards, n, moved)
				}
				in.Owner, in.Planned = got, got
			}
			if c := counts(in.Planned, n); slices.Max(c)-slices.Min(c) > 1 {
				t.Errorf("%d shards, %d members: %v", shards, n, c)
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

func TestNoMemberLives(t *testing.T) {
	if got := Make(Input{Shards: 3}).Target; !slices.Equal(got, noMembers(3)) {
		t.Errorf("without members: %v", got)
	}
	closed := members(2)
	closed[0].Closed, closed[1].Closed = true, true
	if got := Make(Input{Members: closed, Shards: 3, Owner: []int{0, 1, 0}}).Target; !slices.Equal(got, noMembers(3)) {
		t.Errorf("with closed members: %v", got)
	}
}

// Loads that members invent must not upset the plan.
func TestImpossibleLoads(t *testing.T) {
	loads := []float64{math.NaN(), math.Inf(1), -3, math.MaxFloat64, 1, 1, 1, 1}
	c := counts(Make(Input{Members: members(2), Loads: loads, Shards: 8}).Target, 2)
	if c[0] != 4 || c[1] != 4 {
		t.Errorf("%v, want 4 and 4", c)
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

// Idle shards are spread over the members as the others are.
func TestIdle(t *testing.T) {
	c := counts(Make(Input{Members: members(4), Loads: make([]float64, 40), Shards: 40}).Target, 4)
	if !slices.Equal(c, []int{10, 10, 10, 10}) {
		t.Errorf("all idle: %v", c)
	}
	loads := make([]float64, 40)
	loads[0], loads[1] = 100, 100
	plan := Make(Input{Members: members(4), Loads: loads, Shards: 40}).Target
	if c := counts(plan, 4); plan[0] == plan[1] || slices.Max(c) > 25 {
		t.Errorf("two heavy shards are at %d and %d, all: %v", plan[0], plan[1], c)
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

func BenchmarkMake(b *testing.B) {
	in := Input{Members: members(100), Shards: 10_000, Owner: noMembers(10_000)}
	first := Make(in).Target
	in.Owner, in.Planned = first, first
	in.Members[7].Closed = true
	for b.Loop() {
		Make(in)
	}
}
