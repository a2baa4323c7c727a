package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// reconciler has a candidacy for each shard that the plan assigns to this member. Its fields belong
// to Run's goroutine, except what synchronizes itself.
type reconciler struct {
	m     *Member
	ctx   context.Context // of the candidacies, the nodes and the assigner's election: they count as running since this member does
	work  Work
	clock *lease.Clock
	// inbox has what other goroutines found. There is room for much more than is likely: a shard that moves
	// has no owner between the end of its work here and its begin on the next member, and must not wait
	// in that time for a reconciler that is busy with a thousand other shards.
	inbox chan func()
	out   atomic.Pointer[outgoing]

	nodes    []node
	self     group.Member // what the beats report
	plan     *inForce
	running  map[int]*candidacy
	unable   map[int]inability
	assigner *assigner // nil: this member is not the assigner

	unready bool // some candidacies don't stand by yet
	joins   bool // the beats make this member one of the group; else they only query its settings
	joined  bool // a node has accepted this member
	led     bool // this member has owned a shard

	closing    bool
	leaveBy    time.Time // deadline of leave; set before the nodes' goroutines end
	unreleased []error   // of the shards whose locks have lapsed at the end of Run
	failed     error     // ends Run
}

// inability records that this member has failed at a shard.
type inability struct {
	until time.Time // it does not campaign for the shard until then
	trips int       // consecutive failures, at most 5
}

func newReconciler(ctx context.Context, m *Member, work Work) *reconciler {
	host, _ := os.Hostname()
	clock := cmp.Or(lease.ClockFrom(ctx), lease.NewClock(nil))
	r := &reconciler{
		m: m, ctx: lease.WithBegin(ctx, clock.Now()), work: work, clock: clock, inbox: make(chan func(), 64+4*m.cfg.Shards),
		running: map[int]*candidacy{}, unable: map[int]inability{}, plan: m.follow(&group.Plan{}), nodes: make([]node, m.nodes.Len()),
		self: group.Member{
			ID: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.cfg.Advertise, Version: m.cfg.Version,
			Host: host, PID: os.Getpid(), Weight: m.cfg.Weight,
		},
	}
	for i := range r.nodes {
		r.nodes[i].wake, r.nodes[i].answered = make(chan struct{}, 1), time.Now()
	}
	r.publish()
	return r
}

// Run joins the group and calls work once for each shard that this member owns, until ctx
// ends. Then it hands its shards over to the other members, for at most Config.DrainTimeout.
// It returns when all work has returned, all locks are released, and a majority of the nodes has
// recorded the end of each term; it waits for the records at most a quarter of a lease.
//
// Run returns nil after ctx has ended and all locks were released or handed over. It returns:
//   - an elector.ErrNotReleased when some locks were not released and have lapsed, because no
//     majority of the nodes answered
//   - an elector.ErrPermanent when the member can't work: a wrong password, a missing right
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
		all.Go(func() { r.exchange(i) })
	}
	// A message reports only that something has changed; the next beat to that node returns what.
	changes := m.bus.Subscribe(m.store.Changes, 0, func(s pubsub.Signal) bool {
		if s.Kind == pubsub.Subscribed || s.Kind == pubsub.Message && (s.Payload == "plan" || r.out.Load().term != nil) {
			pubsub.Wake(r.nodes[s.Node].wake)
		}
		return false
	})
	if m.probe != nil {
		all.Go(func() { _ = m.probe.Run(inner) })
	}
	all.Go(r.campaignAsAssigner)
	err := r.run(ctx)
	if err != nil && ctx.Err() == nil { // the caller may not be waiting for it
		m.log().Error("run ended", "error", err)
	}
	r.leaveBy = time.Now().Add(m.cfg.requestTimeout())
	cancel()
	changes.Close()
	all.Wait()
	return err
}

func (r *reconciler) send(f func()) {
	select {
	case r.inbox <- f:
	case <-r.ctx.Done(): // Run's goroutine waits for nothing any more
	}
}

func (r *reconciler) fail(format string, args ...any) {
	r.failed = cmp.Or(r.failed, fmt.Errorf("shard: group %s: %w", r.m.cfg.Group, fmt.Errorf(format, args...)))
}

// run is the reconciler's loop. It returns when all shards of this member were handed over or
// released.
func (r *reconciler) run(ctx context.Context) error {
	tick := time.NewTicker(r.m.cfg.beatEvery())
	defer tick.Stop()
	stopping := ctx.Done()
	var timeout <-chan time.Time
	late := false
	for r.failed == nil && !late && !(r.closing && r.drained()) {
		var poll, due <-chan time.Time
		if r.unready {
			poll = time.After(pollEvery)
		}
		if r.assigner != nil {
			due = r.assigner.due
		}
		select {
		case f := <-r.inbox:
			r.apply(f)
		case <-poll:
		case <-due:
			r.decide()
		case <-tick.C:
			r.onTick()
		case <-stopping:
			stopping, r.closing = nil, true
			timeout = time.After(max(0, r.m.cfg.DrainTimeout))
		case <-timeout:
			late = true
		}
		r.act()
		r.report()
	}
	r.endAll()
	if r.failed == nil && len(r.unreleased) > 0 {
		return fmt.Errorf("shard: %d shards were not released, their locks have lapsed: %w", len(r.unreleased), r.unreleased[0])
	}
	return r.failed
}

// pollEvery is the time between two looks at what reports no change: whether a candidate stands by, and
// whether the nodes have admitted this member.
const pollEvery = 10 * time.Millisecond

// drained reports whether no shard is left that another member could take over: all have been taken
// over, or the plan that counts this member as closed assigns the others to no member, or the nodes
// don't answer, and without them no member can take over anything.
func (r *reconciler) drained() bool {
	if len(r.running) == 0 || r.plan.Shards == 0 || r.cutOff() {
		return true
	}
	if r.plan.me != group.NoMember && r.plan.Members[r.plan.me].Closed == "" {
		return false
	}
	for s := range r.running {
		if r.plan.next[s] != group.NoMember {
			return false
		}
	}
	return true
}

// endAll ends all remaining candidacies at once, and waits for them.
func (r *reconciler) endAll() {
	r.closing = true
	for _, c := range r.running {
		c.cancel()
	}
	for len(r.running) > 0 {
		r.apply(<-r.inbox)
		r.report()
	}
}

// apply does all that waits. If a thousand shards begin or end together, the loop does not look at all
// shards a thousand times.
func (r *reconciler) apply(f func()) {
	for f != nil {
		f()
		select {
		case f = <-r.inbox:
		default:
			f = nil
		}
	}
}

func (r *reconciler) act() {
	for s, next := range r.plan.next {
		c := r.running[s]
		switch {
		case next == r.plan.me && next != group.NoMember:
			if c == nil {
				c = r.begin(s)
			}
			if c != nil {
				c.watch(r.plan.owner[s] != group.NoMember && r.plan.owner[s] != r.plan.me)
			}
		case next == group.NoMember || c == nil:
			// No other member could serve it better.
		case c.term == nil:
			c.cancel()
		default:
			// Only to a member that campaigns for the shard, and would receive the release.
			if heir := r.plan.Members[next].Ready[s]; heir != "" {
				c.term.HandOver(heir, fmt.Errorf("moved to %s", r.plan.Members[next].ID))
			}
		}
	}
}

// begin starts to campaign for a shard. It returns nil if this member must not do so now, such as after
// a failure.
func (r *reconciler) begin(shard int) *candidacy {
	if time.Now().Before(r.unable[shard].until) || r.closing || r.cutOff() {
		return nil
	}
	e, err := elector.New(r.m.quorum, r.m.candidate(shard))
	if err != nil { // unexpected: New has checked the configuration
		r.m.log().Error("cannot campaign for a shard", "shard", shard, "error", err)
		return nil
	}
	ctx, cancel := context.WithCancel(r.ctx)
	c := &candidacy{r: r, shard: shard, elector: e, cancel: cancel, since: time.Now()}
	r.running[shard] = c
	go c.run(ctx)
	return c
}

// onTick handles what changes with time alone: shards that this member may try again, work that does
// not stop, health.
func (r *reconciler) onTick() {
	now, cutOff := time.Now(), r.cutOff()
	for s, u := range r.unable {
		// A failure is remembered for another Cooldown, so that the next one counts as consecutive.
		if now.After(u.until.Add(r.m.cfg.Cooldown)) {
			delete(r.unable, s)
		}
	}
	for s, c := range r.running {
		if cutOff && c.term == nil {
			c.cancel() // a plan that would end it can't arrive
		}
		if !c.stuck && c.overdue() && r.plan.next[s] == r.plan.me { // a shard that moves already has a next owner waiting
			c.stuck = true
			r.m.log().Warn("the work of a shard does not stop; the shard is for other members", "shard", s)
		}
	}
}

// candidacyOver handles the end of a candidacy: the error of its Elector, and how its last term has
// ended; nil: there was none.
func (r *reconciler) candidacyOver(c *candidacy, err error, why *elector.Ended) {
	c.cancel()
	delete(r.running, c.shard)
	if r.closing && errors.Is(err, elector.ErrNotReleased) {
		r.unreleased = append(r.unreleased, fmt.Errorf("shard %d: %w", c.shard, err))
	}
	// If another program has overwritten the keys of one shard, the member keeps its other shards.
	// A member that can't work at all must end Run instead of continuing without any shard.
	if errors.Is(err, elector.ErrPermanent) && !r.led && len(r.running) == 0 {
		r.failed = cmp.Or(r.failed, err)
	}
	moved := r.plan.next[c.shard] != r.plan.me
	failed := err != nil || why != nil && leaves(why.Reason)
	if (failed && !moved || c.stuck) && !r.closing {
		trips := min(r.unable[c.shard].trips+1, 5)
		pause := r.m.cfg.Cooldown << (trips - 1)
		r.unable[c.shard] = inability{time.Now().Add(pause), trips}
		r.m.log().Warn("leaving a shard to other members", "shard", c.shard, "for", pause, "error", cmp.Or[error](err, why))
	}
}

// report updates this member's record, and has it sent at once if it has changed.
func (r *reconciler) report() {
	next := r.self
	next.Owned, next.Unable, next.Ready = group.Set{}, group.Set{}, map[int]string{}
	r.unready = false
	for s, c := range r.running {
		switch {
		case c.stuck:
			next.Unable = append(next.Unable, s)
		case c.term != nil:
			next.Owned = append(next.Owned, s)
		case !c.rival: // there is no owner who waits for this member
		case c.ready():
			next.Ready[s] = c.elector.Incarnation()
		default:
			r.unready = true
		}
	}
	now := time.Now()
	for s, u := range r.unable {
		if now.Before(u.until) {
			next.Unable = append(next.Unable, s)
		}
	}
	slices.Sort(next.Owned)
	slices.Sort(next.Unable)
	next.Unable = slices.Compact(next.Unable)
	st := state{r.m.unhealthy(), r.silence()}
	if r.closing {
		st.closed = errors.New("stopping")
	}
	recorded := st.closed
	if st.unfit != nil && !r.closing {
		st.closed, recorded = st.unfit, errSilence // in the record a text that varies would be news without end
	}
	if next.Closed = ""; recorded != nil {
		next.Closed = recorded.Error()
	}
	r.m.state.Store(&st)
	if reflect.DeepEqual(next, r.self) {
		return
	}
	next.Seq++
	r.self = next
	r.publish()
}
