// Package elector elects one leader among the replicas of a worker, on the
// Redis that they already run. A leader keeps its mandate only while it proves
// that it is healthy.
//
//	q, err := elector.Open("redis://127.0.0.1:6379") // or 3, or 5, independent ones
//	e, err := elector.New(q, elector.Config{Election: "orders-poller", Probe: probe})
//	err = e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
//		return poll(ctx, term.Token()) // only one replica is here at a time
//	})
//
// # The machine
//
// One goroutine runs one small state machine. machine.go declares its fields, role.go its
// roles and run.go its loop; campaign.go wins a term, leader.go serves it, and renew.go
// has the only function that sends a renewal:
//
//	             ┌──────────── nothing was wrong ─────────────┐
//	             ▼                                            │
//	idle ──► following ──── a majority granted ──► leading ──► stopping
//	             ▲          the same token            │           │
//	             │                                    │   the work has returned,
//	             └──────── cooled down ── resting ◄───┼── the lock was released
//	                                                  │
//	idle ──► observing, with Config.Observer: it      │
//	         follows, answers, and never claims       │
//	                                                  │
//	                       ends by: deadline, probe, lost lock,
//	                       resignation, shutdown, the work itself
//
// When either the work or the term ends, the other is stopped, and Run waits for
// both. The lock is released only after the work has returned; work that ignores
// its context keeps this process from campaigning, and the lease expires.
//
// # How data flows
//
//	redis nodes ──► internal/quorum ──► internal/lease ──► state machine ──► Term ──► the work
//	     │          claims and renewals   is it still       campaign.go        │
//	     │          of a majority         ours?             leader.go          │
//	     │                                                    ▲                ▼
//	     └────────► internal/pubsub ──► internal/standby ─────┤            events ──► Observe,
//	                messages: hints     when to claim again   │            channels, history
//	                        │                                 │
//	                        └─────────► internal/peers ───────┘
//	                                    who goes first, requests to hand over
//
// Only the state machine reads Config.Probe and Config.WorkProbe; the internal packages do
// not know them. A message from another candidate or an operator is a hint. It can make a
// candidate query Redis, sooner or later than planned, or answer; and it can make a leader name another heir, or end its own term. It has no other effect.
//
// # Reading a renewal
//
// A renewal passes through these files, in this order, leaving out files that it only
// touches, such as candidate.go and stats.go:
//
//	schedule.go                      the renewal is due, together with others
//	renew.go                         fire and renew: check the probes (probes.go), and send it
//	internal/quorum/renewal.go       the arguments of the requests
//	internal/quorum/posted.go        one request per node; a last check whether it may be sent
//	internal/quorum/nodequeue.go     the order of the election's requests to that node
//	internal/transport               one call carries it, with the requests of other elections
//	internal/protocol/scripts/quick.lua (renew.lua where anything differs)
//	                                 the node prolongs the lock
//	internal/quorum/round.go, tally.go
//	                                 the answers of the nodes, and what a majority answered
//	renew.go                         take and count: the lease (internal/lease/grant.go) is extended
//
// A follower's claim takes the same path: follower.go replaces renew.go, internal/standby
// decides when the claim is due, and the state machine (campaign.go, claim.go) decides a
// claim whose answers show anything but the same leader as before.
//
// # Goroutines
//
// Every field belongs to a goroutine that is named here, or is guarded by the mutex whose
// comment names it, or never changes after New. candidate.go has what the goroutines of one
// Elector share.
//
//	goroutine         started by            ends                    owns
//	state machine     Run's caller; for     with Run, or the        machine, memory, leadership, renewer,
//	                  Campaign a new one    campaigned term         standby.Waiter
//	                  once it has won
//	the work          leader.go, per term   when it returns; the    what it does; the state machine waits for it
//	                                        machine never kills it
//	the deadlines     deadline.go, a timer  with the terms          the list of the terms, behind a mutex: it ends the
//	                  per 256 terms                                 terms whose deadline has passed, and skips those
//	                                                                whose deadline is far off
//	due renewals      schedule.go, a timer  when their call to the  nothing of its own: under renewer.mu it sends renewals,
//	                  per 64 of them        last node has ended     and counts those that only extend the lease; the
//	                                                                state machine gets all others
//	due claims        schedule.go, a timer  when their call to the  the machine's fields, from Waiter.Due until ClaimUnchanged,
//	                  per 64 of them, when  last node has ended     ClaimChanged or Wake: the state machine waits, and gets
//	                  the leases end that                           every claim that shows anything but the same leader
//	                  followers have seen                           as before (follower.go)
//	a trial write     leader.go at MaxTerm  within a time-out       nothing
//	an announcement   leader.go at the      when it may be sent     nothing: it waits for the announcement before it
//	                  begin and the end
//	                  of a term
//	a late release    release.go            once definite, or the   the quorum.Release
//	                                        lock has lapsed
//	candidate probe   machine.go            with Run, or the term   health.Runner
//	work probe        leader.go, per term   at the release          health.Runner
//	peers             a message; where the  when all is answered    peers.Peers: what is known of the other candidates
//	                  order of succession
//	                  needs it, a timer
//	requests          quorum, one per node  the call time-out       nothing: they pass the answer to their round
//	                  and round, except for
//	                  what is due above
//	a batch           transport, for what   its call time-out       the requests in it, until each has its answer: it
//	                  is due, announcements                         calls take for the due renewals and claims
//	                  and what waited
//	                  for it
//	subscription      pubsub, two per node  with the last           the connection; lists of subscribers are
//	                  and Quorum            subscriber, or Close    behind a mutex
//	an observer       Observe               with its context        what it has reported; its inbox is behind a mutex
//
// # Time
//
// A lease counts from the moment before its request was sent. With the lease L
// (default 10 s) and a drift allowance of 1 % + 2 ms:
//
//	the lease ends          E = sent + L - drift
//	the work is cancelled   D = E - StopMargin          (L/4)
//	it is renewed           every RenewEvery            (L/4)
//
// So with the defaults, the work of a leader that is cut off is cancelled after at
// most 7.4 s and has 2.5 s to stop, and another candidate leads after at most 10 s
// and a few milliseconds. A leader that dies is replaced after at most L, a leader
// that resigns or shuts down within a round trip or two, and a leader whose probe
// fails as soon as its work has stopped.
//
// Term.Valid and IsLeader read the clock at every call. They notice suspends
// and steps of the wall clock: when the wall and the monotonic clock disagree,
// CLOCK_BOOTTIME decides (Linux), and where there is none the lease counts as
// lost. A virtual machine whose clocks were all stopped can't notice this; only
// the token protects then.
//
// # Health
//
// One function sends renewals, and it checks the probes first. Config.Probe is
// checked at all times, including before campaigning: an unhealthy candidate does
// not campaign. Config.WorkProbe checks what only a leader's work does, and only
// during a term; put a health.Heartbeat there, so that a leader that is alive but
// makes no progress is replaced. When a probe has failed beyond its threshold the
// term ends at once, and the candidate cools down.
//
// # The token
//
// Every term has a fencing token that is larger than those of all terms before
// it. Give it to the resource that the work writes to, and have the resource
// refuse smaller ones. A process can be suspended for any time between checking
// IsLeader and writing. No lock service can prevent that; the token makes it
// harmless.
//
// # Who leads next
//
// The lock alone decides. By default candidates race for it. Config.Succession
// names a preferred candidate (by priority, seniority, or in rotation), as does
// Election.Transfer: with its renewals and its release the leader makes a reservation
// for that candidate on the nodes, which elect no other candidate for a quarter of
// a lease. If the preferred candidate is dead, the election is delayed by at most
// that time. A sitting leader is never evicted: it receives a request, stops its
// work, and releases. Election.Pause prevents the election of new leaders.
//
// # Cost
//
// A renewal that only extends the lease wakes no goroutine of its election. A waiting
// candidate keeps one goroutine, and a leader two, one of them for its work; those of the
// probes come on top. A leader sends one request to each node per RenewEvery, a follower
// one to one and a third per lease, and an observer one per lease. Requests of elections on
// one Quorum that are due together share one call. A Quorum keeps one subscription per node,
// and connections for the requests under way, however many elections use it. IsLeader and
// Term.Valid cost a read of the clock. What Redis keeps of an election is bounded
// (docs/redis.md).
//
// # Guarantees
//
// Never two valid terms at one time, as long as clocks run at the same rate
// within the drift allowance, and:
//
//   - one Redis: it keeps its data. A restart without AOF, FLUSHALL, or a failover
//     to a replica that lags lose the lock.
//   - 3 or 5 independent Redis: they don't all lose their data between two renewals of
//     the leader (a quarter of a lease; three quarters when its renewals don't get
//     through), as when all restart without AOF one right after the other. A minority
//     may hang, die or restart empty without any effect; a majority that loses its data
//     ends the term. A node's clock may be stepped while a majority of the others has
//     the leader's newest renewal, which they have when all are up and the leader
//     reaches them.
//   - Sentinel, Cluster: as one Redis. Replication is asynchronous, so a failover
//     can lose the lock; it is noticed at the next renewal.
//
// A node that lost its data grants nothing for one lease, so even then no candidate
// leads beside the old leader, with one exception: when all nodes are new to the
// election, a candidate that started less than a lease ago, and has not yet received
// an answer with a trace of the election, assumes the very first start and leads
// at once. The overlap lasts until the old leader's next renewal. Every other
// candidate waits, whether it was healthy or not, resting, cut off or suspended before;
// candidates that don't claim poll the nodes when they begin and once per lease. (So the
// very first election waits for a lease if no candidate could claim within its first one.)
//
// All candidates must list the same nodes, in any order. Two lists of the same length
// can each have their own majority; they are distinguished by an identity that each node
// keeps. A candidate that meets, on any of its nodes, a holder that votes with other nodes
// does not lead, and reports that in its log and in Check. Two such candidates can both
// lead only while no node on both lists answers both of them, or while that node still
// holds the lock of an earlier attempt (a lease at most); from then on one of them ends its
// term within about two leases (ReasonLost). Candidates whose lists have no node in common
// can't notice each other.
//
// Tokens are unique and grow in the order of elections, without any assumption about
// clocks, while no node of the granting majority loses its data before the first renewal
// has copied the token to the other nodes (a node that lost its data abstains for a lease,
// so it can't grant an attempt from before). Otherwise a hint from the wall clock keeps
// them growing, as long as the new candidate's clock is not behind the fastest clock that
// a candidate (or a single node) has shown by more than the time since then. (Of two
// concurrent claims either may get the higher token; both can win only if a node's clock
// was stepped meanwhile, see below.)
//
// # What is not promised
//
//   - Valid is no guarantee for the next instruction. Only the token is.
//   - A step forward of a Redis node's wall clock frees its lock early (nodes count
//     their TTLs by it). When less than a majority of the others has the leader's
//     newest renewal just then (a single node always; one of three while another is
//     down or cut off), another candidate can win before the leader's next renewal
//     shows it.
//   - Partial loss of data on a majority (the last second of "appendfsync everysec",
//     an RDB snapshot) can't be noticed by a node that kept its counter.
//   - The work is cancelled, not killed: stopping is up to the work
//     (mandate run does kill its command).
//
// What an election keeps in Redis, and the rights that it needs, are described
// in docs/redis.md.
package elector
