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
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// reconciler has a candidacy for each shard that the plan assigns to this member. Its fields belong
// to Run's goroutine, except those behind mu and what synchronizes itself.
type reconciler struct {
	m         *Member
	ctx       context.Context // of the candidacies
	work      Work
	clock     *lease.Clock
	began     lease.Stamp // when this member started
	inbox     inbox
	admission *admission

	nodes   []nodeState
	plan    *group.Plan // in force; nil: none was received yet
	me      int         // this member's index in plan.Members
	next    []int       // by shard: the member that should own it
	owner   []int       // by shard: the member that owned it when the plan was made
	running map[int]*candidacy
	unable  map[int]inability
	changed bool // what is being applied needs act and report
	joined  bool // a node has accepted this member
	led     bool // this member has owned a shard
	unready bool // some candidacies don't stand by yet
	silent  bool // no majority of the nodes answers

	closing    bool
	leaveBy    time.Time // deadline of leave; set before the links end
	unreleased []error   // of the shards whose locks have lapsed at the end of Run
	failed     error     // ends Run
	blindUntil time.Time // no campaign as the assigner until then: it could not read the members

	mu    sync.Mutex   // guards all below, which only Run's goroutine writes
	self  group.Member // what the beats report
	joins bool         // the beats make this member one of the group; else they only query its settings
	seen  *group.Plan  // the plan in force, for a new assigner
}

// nodeState is what a node has answered to this member's beats.
type nodeState struct {
	link

	plan     *group.Plan     // the last one
	settings *group.Settings // nil: no answer yet
	err      error           // in reply to the last beat
	answered time.Time
	// took has the last two round trips. The shorter one counts: the first request has to open a
	// connection, and any request may be slow because of a pause.
	took [2]time.Duration
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
		m: m, ctx: ctx, work: work, clock: clock, began: clock.Now(), inbox: inbox{waiting: make(chan []func(), 1)}, admission: newAdmission(clock, m),
		running: map[int]*candidacy{}, unable: map[int]inability{}, me: group.NoMember,
		self: group.Member{
			ID: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.cfg.Advertise, Version: m.cfg.Version,
			Host: host, PID: os.Getpid(), Weight: m.cfg.Weight,
		},
	}
	for range m.nodes.Len() {
		r.nodes = append(r.nodes, nodeState{link: newLink(), answered: time.Now()})
	}
	return r
}

// asMember makes the Electors that run under the returned context this member's.
func (r *reconciler) asMember(ctx context.Context) context.Context {
	return lease.WithBegin(ctx, r.began)
}

// send has Run's goroutine call f. It does not block.
func (r *reconciler) send(f func()) { r.inbox.put(f) }

// fail ends Run with an error.
func (r *reconciler) fail(format string, args ...any) {
	r.failed = cmp.Or(r.failed, fmt.Errorf("shard: group %s: %w", r.m.cfg.Group, fmt.Errorf(format, args...)))
}

// sends returns what the beats send: this member's record, and its settings once it joins.
func (r *reconciler) sends() (self group.Member, settings group.Settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.joins {
		settings = r.m.cfg.settings()
	}
	return r.self, settings
}

func (r *reconciler) wakeNodes() {
	for i := range r.nodes {
		r.nodes[i].wake()
	}
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
		select {
		case all := <-r.inbox.waiting:
			r.apply(all)
		case <-r.poll():
			r.report()
		case <-tick.C:
			r.onTick()
		case <-stopping:
			stopping, r.closing = nil, true
			timeout = time.After(max(0, r.m.cfg.DrainTimeout))
			r.report()
		case <-timeout:
			late = true
		}
	}
	r.endAll()
	if r.failed == nil && len(r.unreleased) > 0 {
		return fmt.Errorf("shard: %d shards were not released, their locks have lapsed: %w", len(r.unreleased), r.unreleased[0])
	}
	return r.failed
}

// poll returns a channel on which it is soon time to look whether candidacies stand by.
func (r *reconciler) poll() <-chan time.Time {
	if !r.unready {
		return nil
	}
	return time.After(10 * time.Millisecond)
}

// drained reports whether no shard is left that another member could take over: all have been taken
// over, or the plan that counts this member as closed assigns the others to no member, or the nodes
// don't answer, and without them no member can take over anything.
func (r *reconciler) drained() bool {
	if len(r.running) == 0 || r.plan == nil || r.cutOff() {
		return true
	}
	if r.me != group.NoMember && !r.plan.Members[r.me].Closed {
		return false
	}
	for s := range r.running {
		if r.next[s] != group.NoMember {
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
		r.apply(<-r.inbox.waiting)
	}
}

// apply does all that waits, and then acts once on what that has changed. If a thousand shards begin
// or end together, it does not look at all shards a thousand times.
func (r *reconciler) apply(all []func()) {
	for _, f := range all {
		f()
	}
	if r.changed {
		r.changed = false
		r.act()
		r.report()
	}
}

// answered handles a node's answer to a beat: its plan, its settings, or its error.
func (r *reconciler) answered(node int, a group.Answer, err error, took time.Duration) {
	n := &r.nodes[node]
	if err != nil && n.err == nil && r.ctx.Err() == nil {
		r.m.log().Warn("redis node refused this member or did not answer", "error", err)
	}
	n.err, n.took = err, [2]time.Duration{took, n.took[0]}
	if err == nil {
		n.answered, n.settings = time.Now(), &a.Settings
		r.joined = r.joined || a.Accepted
	}
	r.judge()
	if a.Plan == nil {
		return
	}
	n.plan = a.Plan
	var plans []*group.Plan
	for i := range r.nodes {
		plans = append(plans, r.nodes[i].plan)
	}
	if p := newest(plans, r.m.nodes.Majority()); r.plan == nil || p.Version != r.plan.Version {
		r.follow(p)
	}
}

// judge joins the group when a majority of the nodes has this member's settings, or none, and ends Run
// when a majority refuses the member. A minority may be behind, or forged.
func (r *reconciler) judge() {
	majority, ours := r.m.nodes.Majority(), r.m.cfg.settings()
	fit, named, broken, others := 0, 0, []error{}, map[group.Settings]int{}
	for i := range r.nodes {
		switch n := &r.nodes[i]; {
		case errors.Is(n.err, group.ErrElection):
			named++
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
	case named >= majority:
		r.fail("an election has this name: choose another one, or remove its keys (docs/redis.md) if none of its candidates runs any more (%w)", elector.ErrPermanent)
	case len(broken) >= majority && !r.joined: // later, this may pass
		r.fail("%w: %w", elector.ErrPermanent, errors.Join(broken...))
	case fit >= majority && !r.joins:
		r.mu.Lock()
		r.joins = true
		r.mu.Unlock()
		r.wakeNodes()
	}
}

// follow puts another plan in force, unless it is for another number of shards.
func (r *reconciler) follow(p *group.Plan) {
	if p.Shards != r.m.cfg.Shards {
		r.m.log().Warn("ignoring a plan for another number of shards", "shards", p.Shards)
		return
	}
	r.plan, r.next, r.owner = p, p.Assignees(), p.Owners()
	r.me = slices.IndexFunc(p.Members, func(s group.PlanMember) bool { return s.Incarnation == r.m.incarnation })
	owners := make([]Owner, p.Shards)
	for s := range owners {
		i := r.owner[s]
		if i == group.NoMember {
			i = r.next[s]
		}
		if i != group.NoMember {
			owners[s] = Owner{ID: p.Members[i].ID, Advertise: p.Members[i].Advertise}
		}
	}
	r.m.change(func() { r.m.owners = owners })
	r.mu.Lock()
	r.seen = p
	r.mu.Unlock()
	r.changed = true
}

// newest returns the plan in force: the latest plan of the term of which a majority of the nodes
// holds a plan, or if there is no such term, the latest plan of all. One node with a forged plan
// must not decide, and a node that is behind must not bring an older plan back.
func newest(byNode []*group.Plan, majority int) *group.Plan {
	var latest *group.Plan
	decided := false
	for _, p := range byNode {
		if p == nil {
			continue
		}
		same := 0
		for _, o := range byNode {
			if o != nil && o.Version.Token == p.Version.Token {
				same++
			}
		}
		switch {
		case same >= majority && !decided:
			latest, decided = p, true
		case decided && same < majority:
		case latest == nil || p.Version.After(latest.Version):
			latest = p
		}
	}
	return latest
}

// act brings the candidacies in line with the plan.
func (r *reconciler) act() {
	for s, next := range r.next {
		c := r.running[s]
		switch {
		case next == r.me && r.me != group.NoMember:
			if c == nil {
				c = r.begin(s)
			}
			if c != nil {
				c.watch(r.owner[s] != group.NoMember && r.owner[s] != r.me)
			}
		case next == group.NoMember || c == nil:
			// No other member could serve it better.
		case c.term == nil:
			c.cancel()
		case r.plan.Heirs[s] != "":
			c.handOver(r.plan.Heirs[s], r.plan.Members[next].ID)
		}
	}
}

// begin starts to campaign for a shard. It returns nil if this member must not do so now, such as after
// a failure.
func (r *reconciler) begin(shard int) *candidacy {
	if time.Now().Before(r.unable[shard].until) || r.closing || r.silent {
		return nil
	}
	c, err := newCandidacy(r, shard)
	if err != nil { // unexpected: New has checked the configuration
		r.m.log().Error("cannot campaign for a shard", "shard", shard, "error", err)
		return nil
	}
	r.running[shard] = c
	c.start()
	return c
}

// onTick handles what changes with time alone: shards that this member may try again, work that does
// not stop, health.
func (r *reconciler) onTick() {
	now := time.Now()
	for s, u := range r.unable {
		// A failure is remembered for another Cooldown, so that the next one counts as consecutive.
		if now.After(u.until.Add(r.m.cfg.Cooldown)) {
			delete(r.unable, s)
		}
	}
	for s, c := range r.running {
		c.remind()
		if !c.stuck && c.overdue() && r.next[s] == r.me { // a shard that moves already has a next owner waiting
			c.stuck = true
			r.m.log().Warn("the work of a shard does not stop; the shard is for other members", "shard", s)
		}
	}
	r.act()
	r.report()
}

// candidacyOver handles the end of a candidacy: the error of its Elector, and how its last term has
// ended; nil: there was none.
func (r *reconciler) candidacyOver(c *candidacy, err error, why *elector.Ended) {
	c.cancel()
	delete(r.running, c.shard)
	r.changed = true
	if r.closing && errors.Is(err, elector.ErrNotReleased) {
		r.unreleased = append(r.unreleased, fmt.Errorf("shard %d: %w", c.shard, err))
	}
	// If another program has overwritten the keys of one shard, the member keeps its other shards.
	// A member that can't work at all must end Run instead of continuing without any shard.
	if errors.Is(err, elector.ErrPermanent) && !r.led && len(r.running) == 0 {
		r.failed = cmp.Or(r.failed, err)
	}
	moved := c.shard < len(r.next) && r.next[c.shard] != r.me
	failed := err != nil || why != nil && leaves(why.Reason)
	if (failed && !moved || c.stuck) && !r.closing {
		u := r.unable[c.shard]
		u.trips = min(u.trips+1, 5)
		u.until = time.Now().Add(r.m.cfg.Cooldown << (u.trips - 1))
		r.unable[c.shard] = u
		r.m.log().Warn("leaving a shard to other members", "shard", c.shard, "for", r.m.cfg.Cooldown<<(u.trips-1), "error", err)
	}
}

// report updates this member's record, and has it sent at once if it has changed.
func (r *reconciler) report() {
	next := r.self
	r.unready = false
	next.Owned, next.Unable, next.Ready = group.Set{}, group.Set{}, map[int]string{}
	for s, c := range r.running {
		switch {
		case c.stuck:
			next.Unable = append(next.Unable, s)
		case c.term != nil:
			next.Owned = append(next.Owned, s)
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
	next.Why = ""
	if r.closing {
		next.Why = "stopping"
	} else if err := cmp.Or(r.silence(), r.m.unhealthy()); err != nil {
		next.Why = err.Error()
	}
	next.Closed = next.Why != ""
	if reflect.DeepEqual(next, r.self) {
		return
	}
	next.Seq++
	r.mu.Lock()
	r.self = next
	r.mu.Unlock()
	r.wakeNodes()
}

var (
	errSilence = errors.New("no majority of the Redis nodes answers this member")
	errFar     = errors.New("the Redis nodes answer too late for an assigner")
	errBlind   = errors.New("the members could not be read from a majority of the Redis nodes")
)

// silence returns errSilence when no majority of the nodes has answered within the time for which a
// member counts as alive. Its beats may still arrive, over a link that is slow or works in one
// direction, and it would be given shards although it does not receive the replies to its claims.
func (r *reconciler) silence() (err error) {
	var unfit error
	switch r.silent = r.cutOff(); {
	case r.silent:
		unfit = errSilence
	case r.lacksMajority(func(n *nodeState) bool { return min(n.took[0], n.took[1]) <= r.m.cfg.assignerTrip() }):
		unfit = errFar
	case time.Now().Before(r.blindUntil):
		unfit = errBlind
	}
	r.m.unfit.Store(&unfit)
	if !r.silent {
		return nil
	}
	for _, c := range r.running {
		if c.term == nil {
			c.cancel() // a plan that would end it can't arrive
		}
	}
	return errSilence
}

// cutOff reports whether no majority of the nodes has answered within the time for which this member
// counts as alive. Until then other members may still take over what it owns.
func (r *reconciler) cutOff() bool {
	return r.lacksMajority(func(n *nodeState) bool { return time.Since(n.answered) <= r.m.cfg.aliveFor() })
}

// lacksMajority reports whether ok is true of less than a majority of the nodes.
func (r *reconciler) lacksMajority(ok func(n *nodeState) bool) bool {
	n := 0
	for i := range r.nodes {
		if ok(&r.nodes[i]) {
			n++
		}
	}
	return n < r.m.nodes.Majority()
}
