package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
	"github.com/mandate-dev/mandate/health"
)

// Run joins the group and calls work once for each shard that this member owns, until ctx
// ends. Then it hands its shards over to the other members, for at most Config.DrainTimeout
// (plus Config.WarmTimeout). It returns when all work has returned, all locks are released, and
// a majority of the nodes has recorded the end of each term; it waits for the records at most
// a quarter of a lease.
//
// Run returns nil after ctx has ended and all locks were released or handed over. It returns:
//   - an elector.ErrNotReleased when some locks were not released and have lapsed, because no
//     majority of the nodes answered
//   - an elector.ErrPermanent when the member can't work: a wrong password, a missing right, a
//     group that has the name of an election
//   - an error that names both settings when the living members have another number of shards
//     or another lease
//   - elector.ErrRunning when the Member runs already
func (m *Member) Run(ctx context.Context, work Work) error {
	if work == nil {
		return errors.New("shard: Run: the work is nil")
	}
	if !m.running.CompareAndSwap(false, true) {
		return elector.ErrRunning
	}
	defer m.running.Store(false)
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := newReconciler(inner, m, work)
	var all sync.WaitGroup
	for node := range r.links {
		all.Go(func() {
			r.links[node].beat(inner, r, node)
			r.leave(inner, node)
		})
	}
	self, supervisor := supervised.Member{Prefix: m.quorum.Prefix(), Group: m.cfg.Group, Incarnation: m.incarnation}, supervised.Inherit()
	supervisor.Joined(self)
	defer supervisor.Left(self)
	unsubscribe := m.bus.Subscribe(m.store.Changes, r.notify)
	if m.probe != nil {
		all.Go(func() { _ = m.probe.Run(inner) })
	}
	all.Go(func() { r.assign(inner) })
	err := r.run(ctx)
	r.leaveBy = time.Now().Add(m.cfg.requestTimeout())
	cancel()
	unsubscribe()
	all.Wait()
	return err
}

// notify handles a message on the group's channel. The message reports only that something has
// changed; the next beat to that node returns what.
func (r *reconciler) notify(s pubsub.Signal) {
	if s.Kind == pubsub.Message && s.Payload == "plan" || s.Kind == pubsub.Subscribed {
		r.links[s.Node].wake()
	}
}

// leave removes this member from a node's list of members, so that the others need not wait until
// it counts as dead. leave runs after the last beat to that node, because a beat would add the
// member again. A node that hangs delays the last beat and leave by one request timeout in all.
func (r *reconciler) leave(ctx context.Context, node int) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.leaveBy)
	defer cancel()
	if err := r.m.store.Leave(ctx, node, r.m.incarnation); err != nil {
		r.m.log().Warn("member cannot leave a redis node's roll; it lapses", "error", err)
	}
}

// assign campaigns in the election of the assigner.
func (r *reconciler) assign(ctx context.Context) {
	m := r.m
	cfg := m.cfg.candidate(ElectionOfAssigner(m.cfg.Group), m.cfg.assignerLease())
	cfg.ProbeSettings = health.Settings{Interval: m.cfg.beatEvery()}
	cfg.Probe = health.Func(func(context.Context) error { return health.Definite(m.cannotAssign()) })
	e, err := elector.New(m.quorum, cfg)
	if err == nil {
		inside.Assigns(e)
		err = e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
			newAssigner(m, term, r.known()).run(ctx)
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		r.send(failure{fmt.Errorf("shard: election of the assigner: %w", err)})
	}
}

// cannotAssign returns why this member must not campaign as the assigner; nil: it may. Its claims would
// only get in the way of members that are able to do the assigner's work.
func (m *Member) cannotAssign() error {
	switch {
	case m.silent.Load():
		return errSilence
	case m.tooSlowToAssign.Load():
		return errFar
	case time.Now().Before(time.Unix(0, m.blindUntil.Load())):
		return errBlind
	default:
		return nil
	}
}

var (
	errFar   = errors.New("the Redis nodes answer too late for an assigner")
	errBlind = errors.New("the members could not be read from a majority of the Redis nodes")
)
