package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// link is the way to one node.
type link struct{ woken chan struct{} }

func (l *link) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// link reports to one node that this member lives, and takes the plan from it.
func (r *reconciler) link(ctx context.Context, node int) {
	l := &r.links[node]
	var have group.Version
	for {
		sent := time.Now()
		plan, err := r.m.store.Beat(ctx, node, r.record(), have)
		if plan != nil {
			have = plan.Version
		}
		r.send(answer{node: node, plan: plan, err: err, took: time.Since(sent)})
		timer := time.NewTimer(max(r.m.cfg.beatEvery()-time.Since(sent), minBeat))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.woken:
			timer.Stop()
		}
	}
}

// minBeat is the shortest time between two beats.
const minBeat = 10 * time.Millisecond

// notify takes a message of the group's channel. It reports only that something has changed;
// what, the next beat to that node returns.
func (r *reconciler) notify(s pubsub.Signal) {
	if s.Kind == pubsub.Message && s.Payload == "plan" || s.Kind == pubsub.Subscribed {
		r.links[s.Node].wake()
	}
}

// answer is what a node answered to a beat.
type answer struct {
	node int
	plan *group.Plan // nil: no news
	err  error
	took time.Duration
}

// apply takes the plan of a node, and what it refused.
func (a answer) apply(r *reconciler) {
	var differs *group.DiffersError
	var election *group.ElectionError
	if a.err != nil && r.errs[a.node] == nil && r.ctx.Err() == nil {
		r.m.log().Warn("redis node refused this member or did not answer", "error", a.err)
	}
	r.errs[a.node], r.took[a.node] = a.err, r.took[a.node].add(a.took)
	if a.err == nil {
		r.joined, r.answered[a.node] = true, time.Now()
	}
	if errors.As(a.err, &differs) || errors.As(a.err, &election) {
		r.refused()
		return
	}
	if quorum.Permanent(a.err) {
		r.misconfigured()
	}
	if a.plan == nil {
		return
	}
	r.byNode[a.node] = a.plan
	if p := newest(r.byNode, r.m.nodes.Majority()); r.plan == nil || p.Version != r.plan.Version {
		r.follow(p)
	}
}

// refused ends Run when a majority of the nodes knows of members with other settings. On a
// minority it may be what a group has left behind that came to nothing; it lapses.
func (r *reconciler) refused() {
	count := 0
	var differs *group.DiffersError
	var election *group.ElectionError
	for _, err := range r.errs {
		if errors.As(err, &differs) || errors.As(err, &election) {
			count++
		}
	}
	if count < r.m.nodes.Majority() {
		return
	}
	err := fmt.Errorf("shard: group %s: an election has this name: choose another one", r.m.cfg.Group)
	if differs != nil {
		err = fmt.Errorf("shard: group %s: %w: all members need the same; stop the others first, and wait for two leases, to change it",
			r.m.cfg.Group, differs)
	}
	go r.send(failure{err})
}

// misconfigured ends Run when a majority of the nodes refuses what waiting does not fix,
// and none has ever accepted this member.
func (r *reconciler) misconfigured() {
	count := 0
	for _, err := range r.errs {
		if quorum.Permanent(err) {
			count++
		}
	}
	if !r.joined && count >= r.m.nodes.Majority() {
		go r.send(failure{fmt.Errorf("shard: group %s: %w: %w", r.m.cfg.Group, elector.ErrPermanent, errors.Join(r.errs...))})
	}
}

// cutOff reports whether no majority of the nodes has answered for as long as this member
// counts as alive. Until then others may still take over what it owns.
func (r *reconciler) cutOff() bool {
	return r.without(func(node int) bool { return time.Since(r.answered[node]) <= r.m.cfg.aliveFor() })
}

// without reports whether so many nodes are not as they should be that the others are no majority.
func (r *reconciler) without(ok func(node int) bool) bool {
	n := 0
	for node := range r.links {
		if ok(node) {
			n++
		}
	}
	return n < r.m.nodes.Majority()
}

// roundTrips are the last two times that a node took to answer. The shorter one counts: the
// first has a connection made, and any may meet a pause.
type roundTrips [2]time.Duration

func (r roundTrips) add(took time.Duration) roundTrips { return roundTrips{took, r[0]} }
func (r roundTrips) best() time.Duration               { return min(r[0], r[1]) }
