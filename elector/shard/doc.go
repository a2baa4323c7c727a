// Package shard spreads many shards of work evenly over the members of a group. Each
// shard has one owner at a time, which has everything that a leader has (a lease, a fencing
// token, a health probe, a history), and no member owns more than its due by weight.
//
//	m, err := shard.New(q, shard.Config{Group: "invoices", Shards: 64})
//	err = m.Run(ctx, func(ctx context.Context, term *shard.Term) error {
//		return serve(ctx, term.Shard, term.Token()) // once for each shard that this member owns
//	})
//
// # How it works
//
// A shard is an ordinary election: shard 7 of invoices is the election invoices#7, and a
// member owns the shard only while it holds the lock of that election. What package elector
// promises of a leader holds for an owner.
//
// Several times per lease, a member reports to the nodes that it is alive, which shards it
// owns, and which it can't serve. The members elect an assigner (the election
// invoices#assigner). From the reports the assigner computes a plan: which member should own
// which shard, as evenly as weights allow, with as few moves as possible.
//
// The plan is a hint. A member campaigns for the shards that are planned for it. It hands
// over a shard that is planned for another member as soon as that member campaigns for the
// shard, so a planned move leaves a shard without an owner only for the time of a release
// and a claim. A plan that is wrong, late, forged or missing costs balance. It can't make
// two owners.
//
// All members need the same number of shards and the same lease: one with others is refused
// while the others run, and no work begins unless a majority of the nodes has lately accepted
// the member with its numbers.
//
// The goroutine of Run owns the state (reconciler), the assigner's included; one goroutine for each node sends beats,
// one for each shard campaigns, and one more campaigns as the assigner. What they find waits
// for Run's goroutine in a queue.
package shard
