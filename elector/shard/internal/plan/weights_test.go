package plan

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// Regression: next to a weight that no sum of loads can be divided by, the assigner panicked: and so did each member that
// became the assigner after it.
func TestExtremeWeights(t *testing.T) {
	weights := []float64{math.SmallestNonzeroFloat64, 1e-320, 1e-300, 1e-9, 1, 1e9, 1e300, math.MaxFloat64}
	loads := []float64{-1, 0, math.SmallestNonzeroFloat64, 1, 1e300, math.MaxFloat64}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		in := Input{Shards: 1 + r.IntN(20)}
		for m := range 1 + r.IntN(4) {
			in.Members = append(in.Members, Member{
				ID: strconv.Itoa(m), Weight: weights[r.IntN(len(weights))], Closed: r.IntN(5) == 0,
			})
		}
		for range in.Shards {
			in.Owner = append(in.Owner, r.IntN(len(in.Members)+1)-1)
			in.Planned = append(in.Planned, r.IntN(len(in.Members)+1)-1)
			in.Loads = append(in.Loads, loads[r.IntN(len(loads))])
		}
		if r.IntN(2) == 0 {
			in.Loads = nil
		}
		began := time.Now()
		p := Limit(Make(in), in, 3)
		if d := time.Since(began); d > time.Second {
			t.Errorf("seed %d: %v", seed, d)
		}
		open := false
		for _, m := range in.Members {
			open = open || !m.Closed
		}
		for s, m := range p.Target {
			if m == NoMember && open {
				t.Errorf("seed %d: shard %d is for no member", seed, s)
			}
		}
	}
}
