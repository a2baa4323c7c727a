package shard

import "strconv"

// weighed is one measurement of the shards that this member owns, by Config.Load.
type weighed map[int]float64

// meter has the loads of the shards that this member owns, and of those that it is about to own.
type meter map[int]measured

// measured is the mean of a shard's samples. Until there are enough samples it is the mean of them
// all, and then an exponential one in which each sample has the weight 1/enough. With one sample
// per beat the time constant is four leases.
type measured struct {
	mean    float64
	samples int
}

// enough is the number of samples after which shards are planned by their mean. The mean of fewer
// samples of a fluctuating load would move shards back and forth.
const enough = 4 * beatsPerLease

// take adds a measurement.
func (m meter) take(w weighed) {
	for s, l := range w {
		was := m[s]
		n := min(was.samples+1, enough)
		m[s] = measured{mean: was.mean + (l-was.mean)/float64(n), samples: n}
	}
}

// inherit takes over the load that the shard's last owner has measured. The load of a shard does not
// depend on its owner.
func (m meter) inherit(shard int, load float64) {
	m[shard] = measured{mean: load, samples: enough}
}

// of returns the loads of the given shards, without those that have too few samples.
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

// rounded rounds a load to two digits. Smaller changes would move no shard, but publish new records
// all the time.
func rounded(l float64) float64 {
	l, _ = strconv.ParseFloat(strconv.FormatFloat(l, 'g', 2, 64), 64)
	return l
}

// unknown is the load of a shard that is not measured.
const unknown = -1

// knownLoads are the loads of all shards as the assigner knows them: what an owner has measured last.
// A shard keeps its load on a member without Config.Load, or moves would cause further moves.
type knownLoads map[int]float64

// take adds a member's measurements. A record of another program must not fill the assigner's memory
// with loads of shards that do not exist.
func (k knownLoads) take(loads map[int]float64, shards int) {
	for s, l := range loads {
		if s >= 0 && s < shards {
			k[s] = l
		}
	}
}

// of returns the loads of all shards of a group, by shard; nil when none is known.
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

// averageOf returns the average load, which a shard without a measurement counts as.
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
