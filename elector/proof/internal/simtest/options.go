package simtest

import "time"

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
	Nodes  int // 0: by the seed
	Beside int // so many more elections have the same candidates
	// Deploys means that candidates differ in their versions, that most of them refuse downgrades, and that they
	// get warm before a planned handover.
	Deploys bool
	// Shards is how many a group has whose members take the place of the candidates; 0: it is a
	// single election. Members: 0: by the seed.
	Shards, Members int
	Lease           time.Duration // 0: by the seed
	// Strict also demands what the code does not promise (yet): that no pause
	// falls between asking the probes and sending a renewal, and that
	// Election.Leader knows the exact token.
	Strict bool

	// NodeRate, when not 0, is how much faster all nodes' clocks run: beyond
	// the drift, to see that the checker notices.
	NodeRate float64
	// WarmTimeout, when not 0, is for how many leases a leader waits for its heir to get warm, whatever it may: for the same purpose.
	WarmTimeout float64
	// Sabotage, if set, is called every now and then: for the same purpose.
	Sabotage func(*Sim)
	// Until, if set, ends the simulation at the first violation that contains it.
	Until string
	// StormOnly leaves out the quiet end, which takes some twenty leases.
	StormOnly bool
}

// Report is what a simulation did.
type Report struct {
	Options
	Lease       time.Duration
	Hosts       int
	Virtual     time.Duration
	Terms       int
	Renewals    int
	Batches     int           // calls for several elections
	BesideTerms int           // terms in the elections beside
	ShardTerms  int           // terms of shards
	Moves       int           // of them, how many were handed over
	Versions    int           // terms of candidates that refuse downgrades
	Warmed      int           // how often a candidate began to get warm
	Refused     int           // writes of superseded terms that the fenced register refused
	Recovery    time.Duration // from the end of the faults to a leader
	Ends        map[string]int
	Faults      map[string]int // begun, by kind
	Violations  []string
	History     []string
}
