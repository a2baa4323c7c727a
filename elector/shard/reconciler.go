package shard

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/inside"
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

	settings group.Settings  // of the group; the zero value: not known yet
	shown    []*group.Answer // the last answer of each node; nil: none yet
	agreed   bool            // false: only this member's own configuration, with which it would start the group
	landed   time.Time       // since when a majority of the nodes has them; zero: no majority has
	cuts     map[int]uint64  // while the group grows: the shards that are cut, with the token of the cutting term

	plan    *group.Plan // in force
	me      int         // this member's index in plan.Members
	next    []int       // by shard: the member that should own it
	owner   []int       // by shard: the member that owned it when the plan was made
	running map[int]*candidacy
	unable  map[int]inability
	meter   meter
	closing bool
	led     bool      // this member has owned a shard
	leaveBy time.Time // deadline of leave; set before the links end
	changed bool      // an event that is being applied needs act and report
	failed  error     // ends Run

	unreleased []error // of the shards whose locks have lapsed at the end of Run

	mu     sync.Mutex // guards all below, which only Run's goroutine writes
	self   group.Member
	record group.Record // of self
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
		byNode: make([]*group.Plan, n), errs: make([]error, n), took: make([]roundTrips, n), running: map[int]*candidacy{}, meter: meter{}, unable: map[int]inability{},
		shown: make([]*group.Answer, n), me: group.NoMember,
		self: group.Member{
			ID: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.cfg.Advertise, Version: m.cfg.Version,
			Host: hostname(), PID: os.Getpid(), Weight: m.cfg.Weight, Shards: m.cfg.Shards,
		},
	}
	r.record = r.self.Record()
	for i := range r.links {
		r.links[i].woken = make(chan struct{}, 1)
		r.answered = append(r.answered, time.Now())
	}
	return r
}

// send queues an event for the reconciler, unless the reconciler has ended. It does not block.
func (r *reconciler) send(e event) { r.inbox.put(e) }

// sends returns what the links send: this member's record, and the group's settings as it knows them.
func (r *reconciler) sends() (self group.Record, settings group.Settings) {
	if s := r.m.gate.settings.Load(); s != nil {
		settings = *s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record, settings
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
