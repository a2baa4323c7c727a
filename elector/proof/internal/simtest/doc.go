// Package simtest runs a whole cluster in one testing/synctest bubble: Redis
// nodes (miniredis), the network between, and candidates that are the real
// Elector with the real go-redis below it. A seed makes a schedule of faults:
// connections, nodes, clocks, probes, work. A checker that sees true time (the
// bubble's) and the actual state of every node watches the invariants of the design at
// every step and at every event; in a quiet end the faults are healed and
// liveness is checked.
//
// Every candidate also observes the election: whomever it names must be one whom a
// majority of the nodes had, with that token and address. Messages are forged that
// could be true, also in the quiet end; they must neither be reported nor leave the
// election without a leader for longer.
//
// In a quarter of the seeds the processes are the members of a group of 12 shards
// instead (see group). Each shard is an election, and requests of all travel
// together. A shard has at most one valid owner, and its tokens grow.
//
// One seed is one schedule. The order in which goroutines run at the same
// instant, and the electors' own random pauses, are not part of it, so a
// failure that depends on them may need a few runs of its seed.
//
// What the simulation can't bend: timers run on while a candidate is paused or
// suspended (they fire, but what looks at the clock or at the network
// blocks), and the handshake of a connection never fails halfway (see conn).
package simtest
