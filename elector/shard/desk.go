package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/cordon"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// desk decides which candidacies this member has: those that the plan gives it. Its fields
// belong to Run's goroutine, but for what is behind mu, and the links' channels.
type desk struct {
	m     *Member
	ctx   context.Context // of the candidacies
	work  Work
	began any // when this member did: inside.Now
	links []link
	// standing is whether this member is cordoned; recordoned is signaled when that changes.
	assigner   atomic.Pointer[elector.Elector] // this member in the election of the assigner; nil: not yet
	standing   *cordon.Subject
	recordoned chan struct{}
	events     chan event
	ended      chan struct{} // closed when Run's loop has ended: events are dropped then

	byNode   []*group.Plan // what each node has shown last
	errs     []error       // the last error of each node
	answered []time.Time   // when each node has answered last
	took     []roundTrips  // how long each node took to answer
	joined   bool          // a node has accepted this member

	plan    *group.Plan // in force
	me      int         // this member's index in it
	next    []int       // by shard: who should own it
	running map[int]*candidacy
	unable  map[int]inability
	loads   weighed
	closing bool
	led     bool      // it has owned a shard
	leaveBy time.Time // set before the links end
	changed bool      // by the events that are being applied
	failed  error     // ends Run

	mu   sync.Mutex // of what the links send
	self group.Member
	seen *group.Plan // the plan in force, for a new assigner
}

// link is the way to one node.
type link struct{ woken chan struct{} }

func (l *link) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// inability is that this member has failed at a shard.
type inability struct {
	until time.Time
	trips int
}

// event is what the goroutines around the desk report to it.
type event interface{ apply(d *desk) }

// answer is what a node answered to a beat.
type answer struct {
	node int
	plan *group.Plan // nil: no news
	err  error
	took time.Duration
}

// roundTrips are the last two times that a node took to answer. The shorter one counts: the
// first has a connection made, and any may meet a pause.
type roundTrips [2]time.Duration

func (r roundTrips) add(took time.Duration) roundTrips { return roundTrips{took, r[0]} }
func (r roundTrips) best() time.Duration               { return min(r[0], r[1]) }

// failure ends Run.
type failure struct{ err error }

func newDesk(ctx context.Context, m *Member, work Work) *desk {
	n := m.nodes.Len()
	d := &desk{
		m: m, ctx: ctx, work: work, began: inside.Now(ctx), links: make([]link, n), events: make(chan event), ended: make(chan struct{}),
		byNode: make([]*group.Plan, n), errs: make([]error, n), took: make([]roundTrips, n), running: map[int]*candidacy{}, unable: map[int]inability{},
		me: group.NoMember, recordoned: make(chan struct{}, 1),
		self: group.Member{
			ID: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.cfg.Advertise, Version: m.cfg.Version,
			Host: hostname(), PID: os.Getpid(), Weight: m.cfg.Weight,
		},
	}
	for i := range d.links {
		d.links[i].woken = make(chan struct{}, 1)
		d.answered = append(d.answered, time.Now())
	}
	return d
}

// send gives an event to the desk, unless that has ended.
func (d *desk) send(e event) {
	select {
	case d.events <- e:
	case <-d.ended:
	}
}

// errDone ends the desk's loop well.
var errDone = errors.New("done")

// run is the desk's loop, until all that this member owned was handed over or released.
func (d *desk) run(ctx context.Context) error {
	defer close(d.ended)
	tick := time.NewTicker(d.m.cfg.beatEvery())
	defer tick.Stop()
	stopping := ctx.Done()
	var drained <-chan time.Time
	err := error(nil)
	for err == nil {
		select {
		case e := <-d.events:
			d.apply(e)
			err = d.failed
		case <-tick.C:
			d.look()
		case <-d.recordoned:
			d.cordoned()
		case <-stopping:
			stopping = nil
			drained = time.After(max(0, d.m.cfg.DrainTimeout))
			d.closing = true
			d.report()
		case <-drained:
			err = errDone
		}
		if d.closing && err == nil && d.drained() {
			err = errDone
		}
	}
	d.endAll()
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// drained reports whether nothing is left that another member could take over: all has
// been, or the plan that knows of this member's end assigns the rest to no member. Without
// Redis no member can take over anything.
func (d *desk) drained() bool {
	if len(d.running) == 0 || d.plan == nil || d.cutOff() {
		return true
	}
	if d.me != group.NoMember && !d.plan.Members[d.me].Closed {
		return false
	}
	for s := range d.running {
		if d.next[s] != group.NoMember {
			return false
		}
	}
	return true
}

// cutOff reports whether no majority of the nodes has answered for as long as this member
// counts as alive. Until then others may still take over what it owns.
func (d *desk) cutOff() bool {
	return d.without(func(node int) bool { return time.Since(d.answered[node]) <= d.m.cfg.aliveFor() })
}

// without reports whether so many nodes are not as they should be that the others are no majority.
func (d *desk) without(ok func(node int) bool) bool {
	n := 0
	for node := range d.links {
		if ok(node) {
			n++
		}
	}
	return n < d.m.nodes.Majority()
}

// endAll ends the candidacies that are left, all at once, and waits for them.
func (d *desk) endAll() {
	d.closing = true
	for _, c := range d.running {
		c.cancel()
	}
	for len(d.running) > 0 {
		d.apply(<-d.events)
	}
}

// apply takes an event and those that wait behind it, and then looks once at what they have
// changed: a thousand shards that begin or end together would otherwise be looked at a
// thousand times.
func (d *desk) apply(e event) {
	for {
		e.apply(d)
		select {
		case e = <-d.events:
			continue
		default:
		}
		break
	}
	if d.changed {
		d.changed = false
		if d.next != nil {
			d.act()
		}
		d.report()
	}
}

func (f failure) apply(d *desk) { d.failed = cmp.Or(d.failed, f.err) }

// apply takes the plan of a node, and what it refused.
func (a answer) apply(d *desk) {
	var differs *group.DiffersError
	var election *group.ElectionError
	if a.err != nil && d.errs[a.node] == nil && d.ctx.Err() == nil {
		d.m.log().Warn("redis node refused this member or did not answer", "error", a.err)
	}
	d.errs[a.node], d.took[a.node] = a.err, d.took[a.node].add(a.took)
	if a.err == nil {
		d.joined, d.answered[a.node] = true, time.Now()
	}
	if errors.As(a.err, &differs) || errors.As(a.err, &election) {
		d.refused()
		return
	}
	if quorum.Permanent(a.err) {
		d.misconfigured()
	}
	if a.plan == nil {
		return
	}
	d.byNode[a.node] = a.plan
	if p := newest(d.byNode, d.m.nodes.Majority()); d.plan == nil || p.Version != d.plan.Version {
		d.follow(p)
	}
}

// refused ends Run when a majority of the nodes knows of members with other settings. On a
// minority it may be what a group has left behind that came to nothing; it lapses.
func (d *desk) refused() {
	count := 0
	var differs *group.DiffersError
	var election *group.ElectionError
	for _, err := range d.errs {
		if errors.As(err, &differs) || errors.As(err, &election) {
			count++
		}
	}
	if count < d.m.nodes.Majority() {
		return
	}
	err := fmt.Errorf("shard: group %s: an election has this name: choose another one", d.m.cfg.Group)
	if differs != nil {
		err = fmt.Errorf("shard: group %s: %w: all members need the same; stop the others first, and wait for two leases, to change it",
			d.m.cfg.Group, differs)
	}
	go d.send(failure{err})
}

// misconfigured ends Run when a majority of the nodes refuses what waiting does not fix,
// and none has ever accepted this member.
func (d *desk) misconfigured() {
	count := 0
	for _, err := range d.errs {
		if quorum.Permanent(err) {
			count++
		}
	}
	if !d.joined && count >= d.m.nodes.Majority() {
		go d.send(failure{fmt.Errorf("shard: group %s: %w: %w", d.m.cfg.Group, elector.ErrPermanent, errors.Join(d.errs...))})
	}
}

// newest is the plan in force: the latest of the term of which a majority of the nodes
// has one, or else of the latest term. One node with a forged plan must not decide, and a
// node that is behind must not bring an older plan back.
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

// follow takes another plan.
func (d *desk) follow(p *group.Plan) {
	if p.Shards != d.m.cfg.Shards {
		d.m.log().Warn("ignoring a plan for another number of shards", "shards", p.Shards)
		return
	}
	d.plan, d.next = p, p.Assigned()
	d.me = slices.IndexFunc(p.Members, func(s group.PlanMember) bool { return s.Incarnation == d.m.incarnation })
	owners := p.Owners()
	for s, o := range owners {
		if o == group.NoMember {
			owners[s] = d.next[s]
		}
	}
	d.m.noted(p, owners)
	d.mu.Lock()
	d.seen = p
	d.mu.Unlock()
	d.changed = true
}

// known is the plan in force.
func (d *desk) known() *group.Plan {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

// act brings the candidacies in line with the plan.
func (d *desk) act() {
	for s, next := range d.next {
		c := d.running[s]
		switch {
		case next == d.me && d.me != group.NoMember:
			if c == nil {
				d.begin(s)
			}
		case next == group.NoMember || c == nil:
			// No other member could serve it better.
		case c.term == nil:
			c.cancel()
		case d.plan.Heirs[s] != "":
			c.handOver(d.plan.Heirs[s], d.plan.Members[next].ID)
		}
	}
}

// begin starts to campaign for a shard, unless this member has failed at it lately.
func (d *desk) begin(shard int) {
	if time.Now().Before(d.unable[shard].until) || d.closing || d.m.silent.Load() || d.cordon() != nil {
		return
	}
	c, err := newCandidacy(d, shard)
	if err != nil { // New of the first one has found no problem
		d.m.log().Error("cannot campaign for a shard", "shard", shard, "error", err)
		return
	}
	d.running[shard] = c
	c.start()
}
