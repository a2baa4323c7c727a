// Package elector elects one leader among the replicas of a worker, on the
// Redis that they already run. A leader keeps its mandate only while it proves
// that it is healthy.
//
//	q, err := elector.Open("redis://127.0.0.1:6379") // or 3, or 5
//	e, err := elector.New(q, elector.Config{Election: "orders", Probe: probe})
//	err = e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
//		return poll(ctx, term.Token())
//	})
//
// When either the work or the term ends, the other is stopped, and Run waits for
// both. The lock is released only after the work has returned. While work ignores
// its context this process does not campaign, and the lease expires.
//
// # Time
//
// A lease counts from the moment before its request was sent. With the lease L
// (default 10 s) and a drift allowance of 1 % + 2 ms:
//
//	the lease ends          E = sent + L - drift
//	the work is cancelled   D = E - StopMargin          (L/4)
//	it is renewed           every quarter of it         (L/4)
//
// So by default the work of a leader that is cut off is cancelled after at most
// 7.4 s and has 2.5 s to stop. A dead leader is replaced after about L (under
// mandate supervise within milliseconds), one that resigns within a round trip or
// two, an unhealthy one as soon as its work has stopped.
//
// Term.Valid and IsLeader read the clock at every call, and notice suspends and
// steps of the wall clock. The context of the work of a host that slept beyond
// its lease ends within L/4 of waking.
//
// # Health
//
// The function that sends renewals checks the probes first. Config.Probe is
// checked before campaigning, too.
// Config.WorkProbe checks the work during a term, as a health.Heartbeat does. When a
// probe has failed beyond its threshold the term ends at once, and the candidate cools down.
//
// # The token
//
// Every term has a fencing token that is larger than those of all terms before
// it. Give it to the resource that the work writes to, and have the resource
// refuse smaller ones. No lock service can prevent a process from being suspended
// between checking IsLeader and writing; the token makes that harmless.
//
// # Succession
//
// The lock alone decides; messages from other processes are hints. By default
// candidates race. Config.Succession and Election.Transfer name a preferred
// candidate: the leader makes a reservation for it on the nodes, which elect no
// other candidate for a quarter of a lease, also if that one is dead. A sitting
// leader is never evicted. Election.Pause prevents the election of new leaders.
//
// # Guarantees
//
// Never two valid terms at one time, while clocks run at the same rate within the
// drift allowance, and:
//
//   - one Redis: it keeps its data.
//   - 3 or 5 independent Redis: they don't all lose their data between two renewals
//     (a quarter of a lease; three quarters when renewals don't get through). A
//     minority may hang, die or restart empty without effect; a majority that loses
//     its data ends the term.
//   - Sentinel, Cluster: as one Redis, until a failover loses the lock: docs/servers.md
//     has the bounds.
//
// All candidates must list the same nodes, in any order, and an address must lead to one
// server. A candidate that meets a holder that votes with other nodes does not lead, or
// ends its term. Lists without a common node can't be noticed. docs/safety.md has the bounds.
//
// Tokens are unique and grow in the order of elections, without assumptions about
// clocks, while no node of the granting majority loses its data before the first
// renewal has copied the token to the other nodes. Otherwise the wall clocks keep them growing.
//
// # What is not promised
//
//   - Valid is no guarantee for the next instruction, and a machine whose clocks were
//     all stopped can't notice it. Only the token protects.
//   - A step forward of a Redis node's wall clock frees its lock early. Unless a
//     majority of the others has the leader's newest renewal just then, another
//     candidate can win before the leader's next renewal shows it.
//   - Partial loss of data on a majority (the last second of "appendfsync everysec",
//     an RDB snapshot) can't be noticed by a node that kept its counter.
//   - The work is cancelled, not killed: stopping is up to the work
//     (mandate run does kill its command).
//
// docs/safety.md has the argument and its tests, docs/redis.md the keys. In the source the files that begin with
// election are the handle of operators, [Election], and all that it shows; all others are the lock.
package elector
