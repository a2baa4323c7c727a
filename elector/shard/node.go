package shard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// node is what a node has answered to this member's beats. wake and accepted may be used by any goroutine.
type node struct {
	wake     chan struct{}
	accepted atomic.Pointer[lease.Stamp] // before the last beat that the node has accepted was sent; nil: none

	plan     *group.Plan     // the last one
	settings *group.Settings // nil: no answer yet
	err      error           // in reply to the last beat
	answered time.Time
	// members are those that the node has shown to this member as the assigner, and listed is when.
	members []group.Member
	listed  time.Time
}

// outgoing is what the beats send. It is never changed, but replaced (publish).
type outgoing struct {
	self     group.Member
	settings group.Settings // the zero value: the beats only query those of the nodes
	term     *elector.Term  // as the assigner; nil: this member is not the assigner
	plan     *group.Plan    // of this assigner; nil: none yet
}

func (r *reconciler) publish() {
	out := &outgoing{self: r.self}
	if r.joins {
		out.settings = r.m.cfg.settings()
	}
	if a := r.assigner; a != nil {
		out.term, out.plan = a.term, a.made
	}
	r.out.Store(out)
	for i := range r.nodes {
		pubsub.Wake(r.nodes[i].wake)
	}
}

// minBeat is the shortest time between two beats that nothing has woken.
const minBeat = 10 * time.Millisecond

// exchange reports to one node, again and again, that this member is alive, reads the plan from it, and as
// the assigner writes it. At the end it removes this member from the node's list, so that the others need
// not wait until it counts as dead. A node that hangs delays the last beat and that by one request
// time-out in all.
func (r *reconciler) exchange(i int) {
	var have group.Version
	for r.ctx.Err() == nil {
		out, began := r.out.Load(), time.Now()
		have = r.beat(i, out, have)
		select {
		case <-r.ctx.Done():
		case <-r.nodes[i].wake:
		case <-time.After(max(r.m.cfg.beatEvery()-time.Since(began), minBeat)):
		}
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.ctx), r.leaveBy)
	defer cancel()
	if err := r.m.store.Leave(ctx, i, r.m.incarnation, false); err != nil {
		r.m.log().Warn("member cannot leave a redis node's roll; it lapses", "error", err)
	}
}

// beat sends one beat to a node. It returns the version of the plan that this member has of it.
func (r *reconciler) beat(i int, out *outgoing, have group.Version) group.Version {
	at := r.clock.Now()
	got, err := r.m.store.Beat(r.ctx, i, out.settings, out.self, have, out.term != nil)
	if got.Accepted {
		r.nodes[i].accepted.Store(&at)
	}
	r.send(func() { r.answered(i, out, got, err) })
	if p := out.plan; p != nil && got.Accepted && got.Version != p.Version.String() && out.term.Valid() {
		// A plan with a higher token is replaced, too: while this term is valid, no
		// assigner can have written it.
		_ = r.m.store.Publish(r.ctx, i, p, got.Version)
	}
	if got.Plan != nil {
		return got.Plan.Version
	}
	return have
}

// admitted reports whether a majority of the nodes has accepted this member within the last lease. A node
// that has refuses members with other settings for two leases. No term begins to work without it:
// a member that was suspended while the group was stopped, and started with another number of
// shards, could win the lock of one shard and work on keys of others.
func (r *reconciler) admitted() bool {
	limit := lease.Timing{Lease: r.m.cfg.Lease}.End()
	return r.majority(func(n *node) bool {
		sent := n.accepted.Load()
		if sent == nil {
			return false
		}
		elapsed, ok := r.clock.Since(*sent)
		return ok && elapsed < limit
	})
}

// answered handles a node's answer to a beat: its plan, its settings, its members, or its error.
func (r *reconciler) answered(i int, out *outgoing, a group.Answer, err error) {
	n := &r.nodes[i]
	if err != nil && n.err == nil && r.ctx.Err() == nil {
		r.m.log().Warn("redis node refused this member or did not answer", "error", err)
	}
	n.err = err
	if err == nil {
		n.answered, n.settings = time.Now(), &a.Settings
		r.joined = r.joined || a.Accepted
	}
	r.judge()
	if a.Plan != nil {
		n.plan = a.Plan
		r.followNewest()
	}
	if r.assigner != nil && r.assigner.term == out.term && a.Accepted {
		n.members, n.listed = a.Members, time.Now()
		r.decideSoon()
	}
}

func (r *reconciler) followNewest() {
	var plans []*group.Plan
	for i := range r.nodes {
		plans = append(plans, r.nodes[i].plan)
	}
	if p := newest(plans, r.m.nodes.Majority()); p.Version != r.plan.Version && p.Shards == r.m.cfg.Shards { // a forged plan may have others
		r.plan = r.m.follow(p)
	}
}

// judge joins the group when a majority of the nodes has this member's settings, or none, and ends Run
// when a majority refuses the member. A minority may be behind, or forged.
func (r *reconciler) judge() {
	majority, ours := r.m.nodes.Majority(), r.m.cfg.settings()
	fit, broken, others := 0, []error{}, map[group.Settings]int{}
	for i := range r.nodes {
		switch n := &r.nodes[i]; {
		case rediserr.Permanent(n.err):
			broken = append(broken, n.err)
		case n.settings == nil:
		case *n.settings == ours, *n.settings == group.Settings{}:
			fit++
		default:
			others[*n.settings]++
		}
	}
	for s, n := range others {
		if n >= majority {
			r.fail("the members of the group have %s, this one %s: all members need the same; stop the others first, and wait for two leases, to change it", s, ours)
		}
	}
	switch {
	case len(broken) >= majority && !r.joined: // later, this may pass
		r.fail("%w: %w", elector.ErrPermanent, errors.Join(broken...))
	case fit >= majority && !r.joins:
		r.joins = true
		r.publish()
	}
}

// newest returns the plan in force: the latest plan of the term of which a majority of the nodes
// holds a plan, or if there is no such term, the latest plan of all. One node with a forged plan
// must not decide, and a node that is behind must not bring an older plan back.
func newest(byNode []*group.Plan, majority int) (latest *group.Plan) {
	nodes := map[uint64]int{} // by term
	for _, p := range byNode {
		if p != nil {
			nodes[p.Version.Token]++
		}
	}
	decided := func(p *group.Plan) bool { return nodes[p.Version.Token] >= majority }
	for _, p := range byNode {
		switch {
		case p == nil:
		case latest == nil, decided(p) && !decided(latest), decided(p) == decided(latest) && p.Version.After(latest.Version):
			latest = p
		}
	}
	return latest
}

var errSilence = errors.New("no majority of the Redis nodes answers this member")

// silence returns why this member is cut off; nil: it is not. A node that refuses its beats is not silent.
func (r *reconciler) silence() error {
	if !r.cutOff() {
		return nil
	}
	for i := range r.nodes {
		if err := r.nodes[i].err; rediserr.Answered(err) {
			return err
		}
	}
	return errSilence
}

// cutOff reports whether no majority of the nodes has answered within the time for which this member
// counts as alive. Until then other members may still take over what it owns. Its beats may still arrive,
// over a link that is slow or works in one direction, and it would be given shards although it does not
// receive the replies to its claims.
func (r *reconciler) cutOff() bool {
	return !r.majority(func(n *node) bool { return time.Since(n.answered) <= r.m.cfg.aliveFor() })
}

// majority reports whether ok is true of a majority of the nodes.
func (r *reconciler) majority(ok func(n *node) bool) bool {
	n := 0
	for i := range r.nodes {
		if ok(&r.nodes[i]) {
			n++
		}
	}
	return n >= r.m.nodes.Majority()
}
