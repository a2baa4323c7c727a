package simtest

import (
	"math/rand/v2"
	"time"
)

// Mode says which faults a schedule may hold, and so what may be expected.
type Mode int

const (
	// Safe is everything that the design promises to survive. At most a minority
	// of the nodes forgets within a lease.
	Safe Mode = iota
	// WallHints means that the wall clocks that the token hints come from are wrong by up
	// to an hour; no node forgets.
	WallHints
	// TokensOnly means that any node forgets at any time. Terms may overlap; the tokens
	// must still grow.
	TokensOnly
)

func (m Mode) String() string { return [...]string{"safe", "wall-hints", "tokens-only"}[m] }

// Options of one simulation.
type Options struct {
	Seed   uint64
	Leases float64 // how long the faults last, in leases
	Mode   Mode
	Nodes  int           // 0: by the seed
	Shards int           // how many a group has whose members take the place of the candidates; 0: a single election
	Lease  time.Duration // 0: by the seed

	// The following show that the checker notices. NodeRate, when not 0, is how much faster all nodes' clocks run, beyond
	// the drift. Sabotage is called every now and then. Until ends the simulation at the first violation that contains it.
	NodeRate float64
	Sabotage func(*Sim)
	Until    string
}

// Report is what a simulation did.
type Report struct {
	Options
	Lease      time.Duration
	Hosts      int
	Virtual    time.Duration
	Terms      int // of shards, too
	Renewals   int
	Recovery   time.Duration // from the end of the faults to a leader
	Faults     int           // begun or ended
	Violations []string
	History    []string
}

// timing is what all candidates of a simulation share.
type timing struct {
	lease, renewEvery, stopMargin, cooldown, callTimeout time.Duration
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
