// Package shard spreads many shards of work evenly over the members of a group: each
// shard has one owner at a time, with everything that a leader has (a lease, a fencing
// token, a health probe, a history), and no member owns more than its due.
//
//	m, err := shard.New(q, shard.Config{Group: "invoices", Shards: 64})
//	err = m.Run(ctx, func(ctx context.Context, term *shard.Term) error {
//		return serve(ctx, term.Shard, term.Token()) // once for each shard that this member owns
//	})
//
// # How it works
//
// A shard is an ordinary election: shard 7 of invoices is the election invoices/7, and only
// its lock makes an owner. What package elector promises of a leader, it promises of an
// owner.
//
// A member reports to the nodes several times per lease that it lives, what it owns, how heavy
// that is, and what it can't serve. The members elect an assigner (the election
// invoices/assigner). From what the members report it computes a plan: who should own what,
// as evenly as weights and loads allow, with as few moves as possible. It writes the plan
// to the nodes.
//
// The plan is a hint. A member campaigns for the shards that are planned for it, and hands
// over those that are planned for another one, once that one campaigns for them: so a
// planned move leaves a shard without an owner for the time of a release and a claim. A
// plan that is wrong, late, forged or missing costs balance. It can't make two owners.
//
//	members ──► what they own, their loads ──► nodes ──► assigner
//	   ▲                                                    │
//	   └──────────────── the plan ◄─── nodes ◄──────────────┘
//	   │
//	   └──► one elector.Elector for each shard that is planned for this member
//
// # More shards
//
// A running group grows to a multiple of its shards, when all members are configured for that
// (docs/redis.md; docs/safety.md has why no key gets two owners). The work is for the keys of
// Term.Shard among Term.Shards: ask Term.Has.
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
