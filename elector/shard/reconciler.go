package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/cordon"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/inside"
)

// reconciler decides which candidacies this member has: those that the plan gives it. Its fields
// belong to Run's goroutine, but for what is behind mu, and the links' channels.
type reconciler struct {
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

	unreleased []error // of the shards whose locks have lapsed at the end of Run

	mu   sync.Mutex // of what the links send
	self group.Member
	seen *group.Plan // the plan in force, for a new assigner
}

// event is what the goroutines around the reconciler report to it.
type event interface{ apply(r *reconciler) }

// failure ends Run.
type failure struct{ err error }

func newReconciler(ctx context.Context, m *Member, work Work) *reconciler {
	n := m.nodes.Len()
	r := &reconciler{
		m: m, ctx: ctx, work: work, began: inside.Now(ctx), links: make([]link, n), events: make(chan event), ended: make(chan struct{}),
		byNode: make([]*group.Plan, n), errs: make([]error, n), took: make([]roundTrips, n), running: map[int]*candidacy{}, unable: map[int]inability{},
		me: group.NoMember, recordoned: make(chan struct{}, 1),
		self: group.Member{
			ID: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.cfg.Advertise, Version: m.cfg.Version,
			Host: hostname(), PID: os.Getpid(), Weight: m.cfg.Weight,
		},
	}
	for i := range r.links {
		r.links[i].woken = make(chan struct{}, 1)
		r.answered = append(r.answered, time.Now())
	}
	return r
}

// send gives an event to the reconciler, unless that has ended.
func (r *reconciler) send(e event) {
	select {
	case r.events <- e:
	case <-r.ended:
	}
}

// errDone ends the reconciler's loop well.
var errDone = errors.New("done")

// run is the reconciler's loop, until all that this member owned was handed over or released.
func (r *reconciler) run(ctx context.Context) error {
	defer close(r.ended)
	tick := time.NewTicker(r.m.cfg.beatEvery())
	defer tick.Stop()
	stopping := ctx.Done()
	var drained <-chan time.Time
	err := error(nil)
	for err == nil {
		select {
		case e := <-r.events:
			r.apply(e)
			err = r.failed
		case <-tick.C:
			r.look()
		case <-r.recordoned:
			r.cordoned()
		case <-stopping:
			stopping = nil
			drained = time.After(max(0, r.m.cfg.DrainTimeout))
			r.closing = true
			r.report()
		case <-drained:
			err = errDone
		}
		if r.closing && err == nil && r.drained() {
			err = errDone
		}
	}
	r.endAll()
	if errors.Is(err, errDone) {
		return r.leftovers()
	}
	return err
}

// leftovers is that shards were left to lapse: nil, or how many, and why the first one was.
func (r *reconciler) leftovers() error {
	if len(r.unreleased) == 0 {
		return nil
	}
	return fmt.Errorf("shard: %d shards were not released, their locks have lapsed: %w", len(r.unreleased), r.unreleased[0])
}

// drained reports whether nothing is left that another member could take over: all has
// been, or the plan that knows of this member's end assigns the rest to no member. Without
// Redis no member can take over anything.
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

// endAll ends the candidacies that are left, all at once, and waits for them.
func (r *reconciler) endAll() {
	r.closing = true
	for _, c := range r.running {
		c.cancel()
	}
	for len(r.running) > 0 {
		r.apply(<-r.events)
	}
}

// apply takes an event and those that wait behind it, and then looks once at what they have
// changed: a thousand shards that begin or end together would otherwise be looked at a
// thousand times.
func (r *reconciler) apply(e event) {
	for {
		e.apply(r)
		select {
		case e = <-r.events:
			continue
		default:
		}
		break
	}
	if r.changed {
		r.changed = false
		if r.next != nil {
			r.act()
		}
		r.report()
	}
}

func (f failure) apply(r *reconciler) { r.failed = cmp.Or(r.failed, f.err) }

// act brings the candidacies in line with the plan.
func (r *reconciler) act() {
	for s, next := range r.next {
		c := r.running[s]
		switch {
		case next == r.me && r.me != group.NoMember:
			if c == nil {
				r.begin(s)
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

// begin starts to campaign for a shard, unless this member has failed at it lately.
func (r *reconciler) begin(shard int) {
	if time.Now().Before(r.unable[shard].until) || r.closing || r.m.silent.Load() || r.cordon() != nil {
		return
	}
	c, err := newCandidacy(r, shard)
	if err != nil { // New of the first one has found no problem
		r.m.log().Error("cannot campaign for a shard", "shard", shard, "error", err)
		return
	}
	r.running[shard] = c
	c.start()
}
