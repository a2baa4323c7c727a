package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const limit = 10 * time.Second

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
		start := time.UnixMilli(1e6)
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
