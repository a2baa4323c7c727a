package plan

import "math"

// idle is the smallest load that a shard counts as, relative to the average. It is above zero so
// that idle shards are spread, too.
const idle = 0.05

// normal returns the loads with the average in place of unknown ones, and at least idle. uniform is
// true if all are equal.
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

// isLoad reports whether a load is usable: known, and so small that the sum of a group's loads is
// finite.
func isLoad(l float64) bool { return l >= 0 && l < math.MaxFloat64/group }

// group is a number of shards that no group reaches.
const group = 1 << 20
