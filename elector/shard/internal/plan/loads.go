package plan

import "math"

// idle is what a shard without any load counts, as a part of the average: idle ones are
// spread, too.
const idle = 0.05

// normal are the loads with the average in the place of those that are not known.
func normal(loads []float64, shards int) (all []float64, uniform bool) {
	known, sum := 0, 0.0
	for s := range shards {
		if s < len(loads) && isLoad(loads[s]) {
			known, sum = known+1, sum+loads[s]
		}
	}
	average := 1.0
	if sum > 0 && !math.IsInf(sum, 0) {
		average = sum / float64(known)
	}
	all, uniform = make([]float64, shards), true
	for s := range all {
		all[s] = average
		if s < len(loads) && isLoad(loads[s]) {
			all[s] = max(loads[s], idle*average)
		}
		uniform = uniform && all[s] == all[0]
	}
	return all, uniform
}

// isLoad reports whether a load can be reckoned with: a sum of the largest ones is none.
func isLoad(l float64) bool { return l >= 0 && l < math.MaxFloat64/group }

// group is more shards than any group has.
const group = 1 << 20
