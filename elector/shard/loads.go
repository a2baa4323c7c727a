package shard

import "strconv"

// weighed is one measurement of the shards that this member owns, as Config.Load has them.
type weighed map[int]float64

// meter has the loads of the shards that this member owns, and of those that it is about to.
type meter map[int]measured

// measured is the mean of what was measured of a shard: of all samples, until they are enough,
// and then an exponential one, in which a sample has a part of 1/enough (a time constant of
// four leases: one is measured each beat).
type measured struct {
	mean    float64
	samples int
}

// enough samples make a load that shards are planned by: of fewer, one that goes up and down all the time
// would move shards to and fro.
const enough = 4 * beatsPerLease

// take takes a measurement.
func (m meter) take(w weighed) {
	for s, l := range w {
		was := m[s]
		n := min(was.samples+1, enough)
		m[s] = measured{mean: was.mean + (l-was.mean)/float64(n), samples: n}
	}
}

// inherit takes what the shard's last owner has measured: with its owner a shard does not
// change its load.
func (m meter) inherit(shard int, load float64) {
	m[shard] = measured{mean: load, samples: enough}
}

// of are the loads of some shards, of those that are measured well enough.
func (m meter) of(owned []int) map[int]float64 {
	if len(m) == 0 {
		return nil
	}
	some := make(map[int]float64, len(owned))
	for _, s := range owned {
		if of := m[s]; of.samples == enough {
			some[s] = rounded(of.mean)
		}
	}
	return some
}

// rounded is a load to two digits: smaller changes would move nothing, and be news all the
// time.
func rounded(l float64) float64 {
	l, _ = strconv.ParseFloat(strconv.FormatFloat(l, 'g', 2, 64), 64)
	return l
}

// unknown is the load of a shard that is not measured.
const unknown = -1

// knownLoads are those of all shards as the assigner knows them: what an owner has measured last. A
// member without Config.Load makes none unknown: moves would follow from the moves before them.
type knownLoads map[int]float64

// take takes what a member has measured, of so many shards: a record that another program has written must not
// fill the assigner's memory with those of others.
func (k knownLoads) take(loads map[int]float64, shards int) {
	for s, l := range loads {
		if s >= 0 && s < shards {
			k[s] = l
		}
	}
}

// of are the loads of so many shards.
func (k knownLoads) of(shards int) []float64 {
	if len(k) == 0 {
		return nil
	}
	all := make([]float64, shards)
	for s := range all {
		all[s] = unknown
		if l, ok := k[s]; ok {
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
