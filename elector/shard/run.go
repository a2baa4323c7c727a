package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
	"github.com/mandate-dev/mandate/health"
)

// Run joins the group and calls work once for each shard that this member owns, until ctx
// ends. Then it hands its shards over to the other members, for at most Config.DrainTimeout.
// It returns when all work has returned, all locks are released, and a majority of the nodes has
// recorded the end of each term; it waits for the records at most a quarter of a lease.
//
// Run returns nil after ctx has ended and all locks were released or handed over. It returns:
//   - an elector.ErrNotReleased when some locks were not released and have lapsed, because no
//     majority of the nodes answered
//   - an elector.ErrPermanent when the member can't work: a wrong password, a missing right, a
//     group that has the name of an election
//   - an error that names both settings when the living members have another number of shards
//     or another lease
//   - an error when the Member runs already
func (m *Member) Run(ctx context.Context, work Work) error {
	if work == nil {
		return errors.New("shard: Run: the work is nil")
	}
	if !m.running.CompareAndSwap(false, true) {
		return errors.New("shard: already running")
	}
	defer m.running.Store(false)
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := newReconciler(inner, m, work)
	self, supervisor := supervised.Member{Prefix: m.quorum.Prefix(), Group: m.cfg.Group, Incarnation: m.incarnation}, supervised.Inherit()
	supervisor.Joined(self)
	defer supervisor.Left(self)
	var all sync.WaitGroup
	for i := range r.nodes {
		all.Go(func() {
			r.beat(inner, i)
			r.leave(inner, i)
		})
	}
	unsubscribe := m.bus.Subscribe(m.store.Changes, func(s pubsub.Signal) {
		// The message reports only that something has changed; the next beat to that node returns what.
		if s.Kind == pubsub.Message && s.Payload == "plan" || s.Kind == pubsub.Subscribed {
			r.nodes[s.Node].wake()
		}
	})
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

// beat reports to one node, again and again, that this member is alive, and reads the plan from it.
func (r *reconciler) beat(ctx context.Context, node int) {
	var have group.Version
	for {
		sent, at := time.Now(), r.admission.clock.Now()
		self, settings := r.sends()
		got, err := r.m.store.Beat(ctx, node, settings, self, have)
		took := time.Since(sent)
		if got.Accepted {
			r.admission.accepted(node, at)
		}
		if got.Plan != nil {
			have = got.Plan.Version
		}
		r.send(func() { r.answered(node, got, err, took) })
		if !r.nodes[node].rest(ctx, max(r.m.cfg.beatEvery()-took, minBeat)) {
			return
		}
	}
}

// minBeat is the shortest time between two beats.
const minBeat = 10 * time.Millisecond

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
		err = e.Run(r.asMember(ctx), func(ctx context.Context, term *elector.Term) error {
			newAssigner(r, term).run(ctx)
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		r.send(func() { r.fail("election of the assigner: %w", err) })
	}
}

// link wakes the goroutine that exchanges messages with one node.
type link chan struct{}

func newLink() link { return make(link, 1) }

func (l link) wake() {
	select {
	case l <- struct{}{}:
	default:
	}
}

// rest waits until wake is called, at most for d. It returns false when ctx has ended.
func (l link) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-l:
	}
	return true
}

// inbox is the unbounded queue of what a member's reconciler has to do. put does not block: a shard
// that moves has no owner between the end of its work here and its begin on the next member, and must
// not wait in that time for a reconciler that is busy with a thousand other shards.
type inbox struct {
	mu      sync.Mutex    // of those who put
	waiting chan []func() // at most one list
}

func (b *inbox) put(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []func()
	select {
	case all = <-b.waiting:
	default:
	}
	b.waiting <- append(all, f)
}

// admission is a lease on this member's settings. A node that has accepted a beat refuses members
// with other settings for two leases; the admission counts one, from before the beat was sent. No
// term begins to work without it: a member that was suspended while the group was stopped, and
// started with another number of shards, could win the lock of one shard and work on keys of others.
type admission struct {
	clock    *lease.Clock
	timing   lease.Timing
	majority int

	mu     sync.Mutex // guards all below
	byNode []lease.Stamp
}

func newAdmission(clock *lease.Clock, m *Member) *admission {
	return &admission{
		clock: clock, timing: lease.Timing{Lease: m.cfg.Lease},
		majority: m.nodes.Majority(), byNode: make([]lease.Stamp, m.nodes.Len()),
	}
}

// accepted records that a node has accepted a beat that was sent then.
func (a *admission) accepted(node int, sent lease.Stamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byNode[node] = sent
}

// holds reports whether a majority of the nodes has accepted this member within the last lease.
func (a *admission) holds() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes := 0
	for _, sent := range a.byNode {
		if elapsed, ok := a.clock.Since(sent); ok && !sent.IsZero() && elapsed < a.timing.End() {
			nodes++
		}
	}
	return nodes >= a.majority
}
