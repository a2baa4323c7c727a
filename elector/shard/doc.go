// Package shard spreads many shards of work evenly over the members of a group. Each
// shard has one owner at a time, which has everything that a leader has (a lease, a fencing
// token, a health probe, a history), and no member owns more than its due.
//
//	m, err := shard.New(q, shard.Config{Group: "invoices", Shards: 64})
//	err = m.Run(ctx, func(ctx context.Context, term *shard.Term) error {
//		return serve(ctx, term.Shard, term.Token()) // once for each shard that this member owns
//	})
//
// # How it works
//
// A shard is an ordinary election: shard 7 of invoices is the election invoices/7, and a
// member owns the shard only while it holds the lock of that election. What package elector
// promises of a leader holds for an owner.
//
// Several times per lease, a member reports to the nodes that it is alive, which shards it
// owns, their loads, and which shards it can't serve. The members elect an assigner (the
// election invoices/assigner). From the members' reports the assigner computes a plan: which
// member should own which shard, as evenly as weights and loads allow, with as few moves as
// possible. The assigner writes the plan to the nodes.
//
// The plan is a hint. A member campaigns for the shards that are planned for it. It hands
// over a shard that is planned for another member as soon as that member campaigns for the
// shard, so a planned move leaves a shard without an owner only for the time of a release
// and a claim. A plan that is wrong, late, forged or missing costs balance. It can't make
// two owners.
//
//	members ──► what they own, their loads ──► nodes ──► assigner
//	   ▲                                                    │
//	   └──────────────── the plan ◄─── nodes ◄──────────────┘
//	   │
//	   └──► one elector.Elector for each shard that is planned for this member
//
// # More shards
//
// A running group grows to a multiple of its shards when all members are configured for that
// number (docs/redis.md; docs/safety.md explains why no key gets two owners). The work of a
// term covers the keys of shard Term.Shard out of Term.Shards: check them with Term.Has.
//
// # Goroutines
//
//	goroutine      started by          ends             owns
//	Run            its caller          with Run         reconciler: the plan in force, the candidacies
//	a link         Run, one per node   with Run         what its node has shown of the plan
//	the loads      Run                 with Run, or     nothing
//	                                   Config.Load
//	a candidacy    Run, one per shard  with its term,   its Elector
//	               that it wants       or the plan
//	the assigner   Run                 with Run         its Elector; while it leads: assigner
//	a poller       the assigner, one   with its term    nothing
//	               per node
//	introductions  the assigner, when  when they have   nothing
//	               the group is to     been made
//	               grow
//	a warming      a candidacy, while  with the        nothing
//	               another owns the    candidacy, or
//	               shard               Config.Warm
//	the gate       a term that has to  when none waits  the requests of all terms that wait
//	               query the nodes
package shard
