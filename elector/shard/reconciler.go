package shard

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/cordon"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
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
	standing   *cordon.Subject
	recordoned chan struct{}
	inbox      *inbox

	byNode   []*group.Plan // what each node has shown last
	errs     []error       // the last error of each node
	answered []time.Time   // when each node has answered last
	took     []roundTrips  // how long each node took to answer
	joined   bool          // a node has accepted this member

	settings group.Settings  // of the group; the zero value: not known yet
	shown    []*group.Answer // what each node has shown of them last; nil: nothing yet
	agreed   bool            // they are not only what this member would begin the group with
	landed   time.Time       // since when a majority of the nodes has them; zero: none has
	cuts     map[int]uint64  // of a group that grows: the shards that are cut, by which term

	plan    *group.Plan // in force
	me      int         // this member's index in it
	next    []int       // by shard: who should own it
	owner   []int       // by shard: who owned it when the plan was made
	running map[int]*candidacy
	unable  map[int]inability
	meter   meter
	closing bool
	led     bool      // it has owned a shard
	leaveBy time.Time // set before the links end
	changed bool      // by the events that are being applied
	failed  error     // ends Run

	unreleased []error // of the shards whose locks have lapsed at the end of Run

	mu     sync.Mutex // of what the links send
	self   group.Member
	record group.Record // of self
	seen   *group.Plan  // the plan in force, for a new assigner
}

// inability is that this member has failed at a shard.
type inability struct {
	until time.Time
	trips int
}

// failure ends Run.
type failure struct{ err error }

func newReconciler(ctx context.Context, m *Member, work Work) *reconciler {
	n := m.nodes.Len()
	r := &reconciler{
		m: m, ctx: ctx, work: work, began: inside.Now(ctx), links: make([]link, n), inbox: newInbox(),
		byNode: make([]*group.Plan, n), errs: make([]error, n), took: make([]roundTrips, n), running: map[int]*candidacy{}, meter: meter{}, unable: map[int]inability{},
		shown: make([]*group.Answer, n), me: group.NoMember, recordoned: make(chan struct{}, 1),
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

// send gives an event to the reconciler, unless that has ended. It does not block.
func (r *reconciler) send(e event) { r.inbox.put(e) }

// sends is what the links send: this member, and the settings of the group as it knows them.
func (r *reconciler) sends() (self group.Record, settings group.Settings) {
	if s := r.m.gate.settings.Load(); s != nil {
		settings = *s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record, settings
}

// known is the plan in force.
func (r *reconciler) known() *group.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// cordon is what an operator has put on this member; nil: nothing.
func (r *reconciler) cordon() *protocol.Cordon {
	if r.standing == nil {
		return nil
	}
	return r.standing.Cordon()
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
