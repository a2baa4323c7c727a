package shard

import (
	"math"
	"time"
)

// weighed are the loads of the shards that this member owns, as Config.Load has them.
type weighed map[int]float64

// unknown is the load of a shard that was not measured.
const unknown = -1

// of are the loads of some shards.
func (w weighed) of(owned []int) map[int]float64 {
	if len(w) == 0 {
		return nil
	}
	some := make(map[int]float64, len(owned))
	for _, s := range owned {
		if l, ok := w[s]; ok {
			some[s] = l
		}
	}
	return some
}

// rounded is a load to two digits: smaller changes would move nothing, and be news all the
// time.
func rounded(l float64) float64 {
	if !(l >= 0) || math.IsInf(l, 0) {
		return unknown
	}
	unit := math.Pow(10, math.Floor(math.Log10(l))-1)
	if unit == 0 || math.IsInf(unit, 0) { // of zero, and of the smallest and the largest numbers
		return 0
	}
	return math.Round(l/unit) * unit
}

// smoothed are the loads of all shards as the assigner goes by them: each follows what its
// owner measures within about a lease. A load that goes up and down all the time would move
// shards to and fro.
type smoothed struct {
	at time.Time
	by map[int]float64
}

// take takes what was measured. A shard that is measured for the first time begins as an
// average one: a single measurement may be any.
func (b *smoothed) take(now time.Time, loads map[int]float64, lease time.Duration) {
	if b.by == nil {
		b.by = map[int]float64{}
	}
	average := averageOf(loads)
	if len(b.by) > 0 {
		average = averageOf(b.by)
	}
	part := 1 - math.Exp(-float64(now.Sub(b.at))/float64(lease))
	if b.at.IsZero() {
		part = 0
	}
	b.at = now
	for s, l := range loads {
		old, known := b.by[s]
		if !known {
			old = average
		}
		b.by[s] = old + (l-old)*part
	}
}

// of are the loads of so many shards.
func (b *smoothed) of(shards int) []float64 {
	if len(b.by) == 0 {
		return nil
	}
	all := make([]float64, shards)
	for s := range all {
		all[s] = unknown
		if l, ok := b.by[s]; ok {
			all[s] = l
		}
	}
	return all
}

// averageOf is the load of a shard that has none of its own.
func averageOf(loads map[int]float64) float64 {
	if len(loads) == 0 {
		return 1
	}
	sum := 0.0
	for _, l := range loads {
		sum += l
	}
	return sum / float64(len(loads))
}
