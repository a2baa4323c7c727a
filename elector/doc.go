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
// One goroutine runs one small state machine (machine.go has what it owns, role.go its
// roles, run.go its loop; campaign.go is the way to a term, leader.go the term, and
// renew.go holds the only function that renews):
//
//	             ┌──────────── nothing was wrong ─────────────┐
//	             ▼                                            │
//	idle ──► following ──── a majority granted ──► leading ──► stopping
//	             ▲          the same token            │           │
//	             │                                    │   the work has returned,
//	             └──────── cooled down ── resting ◄───┼── the lock was released
//	                                                  │
//	idle ──► observing, with Config.Observer: it      │
//	         follows and answers, and never claims    │
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
// Config.Probe and Config.WorkProbe are read by the state machine, which is the only one
// to know them. What another candidate or an operator publishes makes a candidate query
// Redis, or makes a leader end its own term; it has no other effect.
//
// # Reading a renewal
//
// A renewal passes these files, in this order; candidate.go, stats.go and the like it only
// touches:
//
//	schedule.go                      it is due, with others
//	renew.go                         fire and renew: probes.go is asked, then it is sent
//	internal/quorum/renewal.go       what a node is told
//	internal/quorum/posted.go        one request for each node, asked once more whether it may go
//	internal/quorum/nodequeue.go     the election's turn at that node
//	internal/transport               it travels with the requests of other elections, in one call
//	internal/protocol/scripts/quick.lua (renew.lua where anything differs)
//	                                 the node prolongs the lock
//	internal/quorum/round.go, tally.go
//	                                 what the nodes answered, and what the majority did
//	renew.go                         take and count: the lease of internal/lease/grant.go is renewed
//
// A follower's claim goes the same way: follower.go has the place of renew.go,
// internal/standby decides when it is due, and the state machine (campaign.go, claim.go)
// decides a claim that shows more than the leader of before.
//
// # Goroutines
//
// A field belongs to the goroutine that is named here, is guarded by a mutex that names
// it, or never changes after New. What the goroutines of one Elector share is in
// candidate.go.
//
//	goroutine         started by            ends                    owns
//	state machine     Run's caller; for     with Run, or the        machine, memory, leadership, renewer,
//	                  Campaign a new one    campaigned term         standby.Waiter
//	                  once it has won
//	the work          leader.go, per term   when it returns; the    what it does; the state machine waits for it
//	                                        machine never kills it
//	the deadlines     deadline.go, a timer  with the terms          the list of the terms, behind a mutex: it ends
//	                  per 256 terms                                 those whose deadline has passed, and passes over
//	                                                                those whose deadline is far
//	due renewals      schedule.go, a timer  with their call to the  nothing of its own: under renewer.mu it sends renewals,
//	                  per 64 of them        last node               and counts those that only extend the lease; the
//	                                                                rest goes to the state machine
//	due claims        schedule.go, a timer  with their call to the  the machine's fields, from Waiter.Due until Held, Shown
//	                  per 64 of them, when  last node               or Wake: the state machine waits meanwhile, and gets
//	                  the leases end that                           every claim that shows more than the leader of before
//	                  followers have seen                           (follower.go)
//	a trial write     leader.go at MaxTerm  within a time-out        nothing
//	an announcement   leader.go at the      when it may be sent     nothing: it waits for the announcement before it
//	                  begin and the end
//	                  of a term
//	a warm handover   leader.go, of a       when the heir is warm,  nothing: it answers to the term
//	                  planned end           or the term has ended
//	Config.Warm       peers, a message      when it returns         nothing
//	a late release    release.go            definite, or the lock   the quorum.Release
//	                                        has lapsed
//	candidate probe   machine.go            with Run, or the term   health.Runner
//	work probe        leader.go, per term   at the release          health.Runner
//	peers             a message; where the  when all is answered    peers.Peers: what is known of the other candidates
//	                  order of succession
//	                  needs it, a timer
//	requests          quorum, one per node  the call time-out       nothing: they answer to their round
//	                  and round, but for
//	                  what is due above
//	a batch           transport, of what    its call time-out       the requests in it, until each has its answer: it
//	                  is due, announcements                         runs what takes the answers of those due above
//	                  and what waited
//	                  for it
//	subscription      pubsub, two per node  with the last           the connection; lists of subscribers are
//	                  and Quorum            subscriber, or Close    behind a mutex
//	cordons           the first Run of a    with the last Run       what each node has shown is behind a mutex
//	                  prefix, one per node
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
// So with the defaults: the work of a leader that is cut off is cancelled after at
// most 7.4 s and has 2.5 s to stop, and another candidate leads after at most 10 s
// and a few milliseconds. A leader that dies is replaced after at most L, one
// that resigns or shuts down within a round trip or two, one whose probe fails
// as soon as its work has stopped.
//
// Term.Valid and IsLeader read the clock at every call. They notice suspends
// and steps of the wall clock: when the wall and the monotonic clock disagree,
// CLOCK_BOOTTIME decides (Linux), and where there is none the lease counts as
// lost. A virtual machine whose clocks were all stopped can't notice; only the
// token protects then.
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
// work, and releases. Election.Pause prevents the election of new leaders, and
// Quorum.Cordon keeps a candidate from campaigning in all elections.
//
// # Cost
//
// A renewal that changes nothing but the lease wakes no goroutine of its election.
// A candidate that waits keeps one goroutine, and with its work a leader two, beside those of
// the probes. A leader sends one request to each node per RenewEvery, and each candidate that follows one
// to one and a third per lease; an observer one per lease. Requests of elections on one
// Quorum that meet travel in one call. A Quorum keeps one subscription
// per node, and connections for what is under way, however many elections use it. IsLeader
// and Term.Valid cost a read of the clock. What Redis keeps of an election is bounded
// (docs/redis.md).
//
// # Guarantees
//
// Never two valid terms at one time, as long as clocks run at the same rate
// within the drift allowance, and:
//
//   - one Redis: it keeps its data. A restart without AOF, FLUSHALL, or a failover
//     to a replica that lags lose the lock.
//   - 3 or 5 independent Redis: they don't all forget between two renewals of the
//     leader (a quarter of a lease; three quarters when its renewals don't get
//     through), as they do when all restart without AOF one right after the other. A
//     minority may hang, die or restart empty, and costs nothing; a majority that
//     forgets costs the term. A node's clock may be stepped while a majority of the
//     others has taken the leader's newest renewal, as they have when all are up and
//     the leader reaches them.
//   - Sentinel, Cluster: as one Redis. Replication is asynchronous, so a failover
//     can lose the lock; it is noticed at the next renewal.
//
// A node that lost its data grants nothing for one lease, so even then no candidate
// leads beside the old leader, with one exception: when all nodes are new to the
// election, a candidate that started less than a lease ago, and has not yet received
// an answer with a trace of the election, assumes the very first start and leads
// at once. The overlap lasts until the old leader's next renewal. Every other
// candidate waits, healthy or not, resting, cut off or suspended before; those that
// don't claim look at the election when they begin and once per lease. (So the very
// first election waits for a lease if no candidate could claim within its first one.)
//
// All candidates must list the same nodes, in any order. Two lists of one length can
// each have its own majority; they are distinguished by an identity that each node
// keeps. A candidate that meets, on any of its nodes, a holder that votes with others
// does not lead, and reports it in its log and in Check. Two can lead only while no node
// that both list answers both of them, or while it still holds the lock of an earlier
// attempt (a lease at most); from then on one of them ends its term within about two
// leases (ReasonLost). Lists without a common node can't notice each other.
//
// Tokens are unique and grow in the order of elections without any assumption
// about clocks while no node of the granting majority forgets before the first
// renewal has copied the token to the others (a node that forgot abstains for a
// lease, so that no attempt from before can be granted there); beyond that a hint
// of the wall clock keeps them growing, as long as the new candidate's clock is
// not behind the fastest one that a candidate (or a single node) has shown by more
// than the time since. (Of two claims that are under way at once either may get the higher
// token; both can win only if a node's clock was stepped meanwhile, see below.)
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
