package simtest

import (
	"math/rand/v2"
	"time"
)

// timing is what all candidates of a simulation share.
type timing struct {
	lease, renewEvery, stopMargin, cooldown time.Duration
	callTimeout                             time.Duration
	warmTimeout                             time.Duration // for how long a planned end of a term waits for a warm heir
}

// leases are those that people choose, from the restless to the patient. A virtual hour
// of the one costs three thousand times as much as one of the other; a lease costs the same.
var leases = []time.Duration{
	200 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute,
}

func timings(plan *rand.Rand, lease time.Duration) timing {
	t := timing{lease: leases[plan.IntN(len(leases))]}
	if lease > 0 {
		t.lease = lease
	}
	t.renewEvery = t.lease / 4
	t.stopMargin = []time.Duration{t.lease / 4, t.lease / 10, time.Millisecond, time.Millisecond}[plan.IntN(4)]
	t.cooldown = t.lease / 2
	t.callTimeout = t.renewEvery * 4 / 5
	return t
}
