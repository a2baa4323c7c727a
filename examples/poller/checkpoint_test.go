package main

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

const limit = 10 * time.Second

func at(s int64) time.Time { return time.UnixMilli(s * 1000) }

func rows(ids ...int64) (all []event) {
	for _, id := range ids {
		all = append(all, event{ID: id})
	}
	return all
}

func TestCheckpoint(t *testing.T) {
	for name, c := range map[string]struct {
		before checkpoint
		read   reading
		want   checkpoint
	}{
		"nothing new": {checkpoint{High: 5}, reading{at: at(1), gapsTo: allGaps}, checkpoint{High: 5}},
		"in order":    {checkpoint{}, reading{at: at(1), rows: rows(1, 2, 3), gapsTo: allGaps}, checkpoint{High: 3}},
		"gaps open": {checkpoint{High: 2}, reading{at: at(1), rows: rows(4, 5, 9), gapsTo: allGaps},
			checkpoint{9, []gap{{3, 3, 1000}, {6, 8, 1000}}}},
		"a gap is split": {checkpoint{9, []gap{{3, 7, 1000}}}, reading{at: at(2), rows: rows(5, 10), gapsTo: allGaps},
			checkpoint{10, []gap{{3, 4, 1000}, {6, 7, 1000}}}},
		"gaps are filled from either end": {checkpoint{9, []gap{{3, 5, 1000}, {7, 8, 1000}}}, reading{at: at(2), rows: rows(3, 5, 7, 8), gapsTo: allGaps},
			checkpoint{9, []gap{{4, 4, 1000}}}},
		"at the limit it is kept": {checkpoint{9, []gap{{3, 5, 1000}}}, reading{at: at(11), gapsTo: allGaps}, checkpoint{9, []gap{{3, 5, 1000}}}},
		"overdue":                 {checkpoint{9, []gap{{3, 5, 1000}}}, reading{at: at(12), gapsTo: allGaps}, checkpoint{High: 9}},
		"overdue, but not looked into": {checkpoint{9, []gap{{3, 4, 1000}, {6, 8, 1000}}}, reading{at: at(12), rows: rows(6), gapsTo: 6},
			checkpoint{9, []gap{{7, 8, 1000}}}},
	} {
		if got := c.before.after(c.read, limit); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A model of the table: ids become visible in any order within the limit, some
// never do. Every visible one is fed once, and at the end no gap is left.
func TestCheckpointFeedsEveryRowOnce(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range 300 {
		const n = 60
		visible := map[int64]time.Duration{} // since the start
		for id := int64(1); id <= n; id++ {
			begun := time.Duration(id) * 300 * time.Millisecond
			if random.IntN(10) > 0 { // else it was rolled back
				visible[id] = begun + time.Duration(random.Int64N(int64(limit)-int64(time.Second)))
			}
		}
		fed := map[int64]int{}
		var c checkpoint
		batch := 1 + random.IntN(8)
		start := at(1000)
		for now := time.Duration(0); now < 5*time.Minute; now += time.Duration(1 + random.Int64N(int64(time.Second))) {
			r := reading{at: start.Add(now), gapsTo: allGaps}
			is := func(id int64) bool { v, ok := visible[id]; return ok && v <= now }
			for _, g := range c.Gaps {
				for id := g.From; id <= g.To; id++ {
					if is(id) && len(r.rows) < batch {
						r.rows = append(r.rows, event{ID: id})
					}
				}
			}
			if len(r.rows) == batch {
				r.gapsTo = r.rows[batch-1].ID
			}
			for id := c.High + 1; id <= n && len(r.rows) < batch; id++ {
				if is(id) {
					r.rows = append(r.rows, event{ID: id})
				}
			}
			for _, row := range r.rows {
				fed[row.ID]++
			}
			c = c.after(r, limit)
		}
		for id := int64(1); id <= n; id++ {
			want := 0
			if _, ok := visible[id]; ok {
				want = 1
			}
			if fed[id] != want {
				t.Fatalf("seed %d, round %d: row %d was fed %d times, want %d", seed, round, id, fed[id], want)
			}
		}
		if len(c.Gaps) > 0 {
			t.Fatalf("seed %d, round %d: gaps left for ever: %v", seed, round, fmt.Sprint(c.Gaps))
		}
	}
}
