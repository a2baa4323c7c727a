package shard

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// reconciler has a candidacy for each shard that the plan assigns to this member. Its fields belong
// to Run's goroutine, except those behind mu and the channels of the links.
type reconciler struct {
	m     *Member
	ctx   context.Context // of the candidacies
	work  Work
	began any // when this member started: inside.Now
	links []link
	inbox *inbox

	byNode   []*group.Plan // the last plan of each node
	errs     []error       // each node's error in reply to the last beat
	answered []time.Time   // when each node last answered
	took     []roundTrips  // how long each node took to answer
	joined   bool          // a node has accepted this member

	shown     []*group.Settings // of the group, as each node has last answered; nil: not yet
	admission admission

	plan    *group.Plan // in force
	me      int         // this member's index in plan.Members
	next    []int       // by shard: the member that should own it
	owner   []int       // by shard: the member that owned it when the plan was made
	running map[int]*candidacy
	unable  map[int]inability
	closing bool
	led     bool      // this member has owned a shard
	leaveBy time.Time // deadline of leave; set before the links end
	changed bool      // an event that is being applied needs act and report
	failed  error     // ends Run

	unreleased []error // of the shards whose locks have lapsed at the end of Run

	mu     sync.Mutex // guards all below, which only Run's goroutine writes
	self   group.Member
	record group.Record // of self
	joins  bool         // the beats make this member one of the group; else they only query its settings
	seen   *group.Plan  // the plan in force, for a new assigner
}

// inability records that this member has failed at a shard.
type inability struct {
	until time.Time // it does not campaign for the shard until then
	trips int       // consecutive failures, at most 5
}

// failure ends Run.
type failure struct{ err error }

func newReconciler(ctx context.Context, m *Member, work Work) *reconciler {
	n := m.nodes.Len()
	r := &reconciler{
		m: m, ctx: ctx, work: work, began: inside.Now(ctx), links: make([]link, n), inbox: newInbox(),
		byNode: make([]*group.Plan, n), errs: make([]error, n), took: make([]roundTrips, n), running: map[int]*candidacy{}, unable: map[int]inability{},
		shown: make([]*group.Settings, n), me: group.NoMember,
		self: group.Member{
			ID: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.cfg.Advertise, Version: m.cfg.Version,
			Host: hostname(), PID: os.Getpid(), Weight: m.cfg.Weight,
		},
	}
	r.record = r.self.Record()
	r.admission = admission{
		clock: cmp.Or(lease.ClockFrom(ctx), lease.NewClock(nil)), timing: lease.Timing{Lease: m.cfg.Lease},
		majority: m.nodes.Majority(), byNode: make([]lease.Stamp, n),
	}
	for i := range r.links {
		r.links[i].woken = make(chan struct{}, 1)
		r.answered = append(r.answered, time.Now())
	}
	return r
}

// send queues an event for the reconciler, unless the reconciler has ended. It does not block.
func (r *reconciler) send(e event) { r.inbox.put(e) }

// sends returns what the links send: this member's record, and its settings once it joins.
func (r *reconciler) sends() (self group.Record, settings group.Settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.joins {
		settings = r.m.cfg.settings()
	}
	return r.record, settings
}

func (r *reconciler) wakeLinks() {
	for i := range r.links {
		r.links[i].wake()
	}
}

// known returns the plan in force.
func (r *reconciler) known() *group.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// cutOff reports whether no majority of the nodes has answered within the time for which this member
// counts as alive. Until then other members may still take over what it owns.
func (r *reconciler) cutOff() bool {
	return r.lacksMajority(func(node int) bool { return time.Since(r.answered[node]) <= r.m.cfg.aliveFor() })
}

// lacksMajority reports whether ok is true of less than a majority of the nodes.
func (r *reconciler) lacksMajority(ok func(node int) bool) bool {
	n := 0
	for node := range r.links {
		if ok(node) {
			n++
		}
	}
	return n < r.m.nodes.Majority()
}
