package shard

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/shard/internal/plan"
)

// assigner makes the plans during one term of this member as the assigner.
type assigner struct {
	m    *Member
	term *elector.Term
	last *group.Plan // the plan in force; nil: none
	seq  uint64

	snapshots []snapshot // by node
	saw       time.Time  // when a majority of the nodes had last shown the members
	seen      chan snapshot
	pollers   []link
	wanted    atomic.Pointer[group.Plan] // what the pollers publish
}

// snapshot is what a node has returned, and when.
type snapshot struct {
	group.Snapshot
	node int
	at   time.Time
	ok   bool
}

func newAssigner(m *Member, term *elector.Term, known *group.Plan) *assigner {
	n := m.nodes.Len()
	a := &assigner{m: m, term: term, last: known, snapshots: make([]snapshot, n), seen: make(chan snapshot), pollers: make([]link, n)}
	for i := range a.pollers {
		a.pollers[i].woken = make(chan struct{}, 1)
	}
	return a
}

// planDelay is how long a change waits for others that arrive together with it.
const planDelay = 10 * time.Millisecond

// firstPlanDelay is for members that start together. Without it, the first one would be given all
// shards, and then hand most of them over.
func (a *assigner) firstPlanDelay() time.Duration { return min(a.m.cfg.Lease/10, time.Second/2) }

func (a *assigner) run(ctx context.Context) {
	var all sync.WaitGroup
	for node := range a.pollers {
		all.Go(func() { a.poll(ctx, node) })
	}
	defer all.Wait()
	defer a.m.bus.Subscribe(a.m.store.Changes, func(s pubsub.Signal) {
		if s.Kind == pubsub.Subscribed || s.Kind == pubsub.Message && s.Payload == "members" {
			a.pollers[s.Node].wake()
		}
	})()
	var due <-chan time.Time
	blind := time.NewTicker(a.m.cfg.beatEvery())
	defer blind.Stop()
	a.saw = time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-blind.C:
			a.giveUp()
		case s := <-a.seen:
			a.snapshots[s.node] = s
			if due == nil {
				due = time.After(a.wait())
			}
		case <-due:
			due = nil
			a.decide()
		}
	}
}

func (a *assigner) wait() time.Duration {
	if a.last == nil {
		return a.firstPlanDelay()
	}
	return planDelay
}

// giveUp leaves the assigner's election to other members for a lease if this member can't read the
// group's members from a majority of the nodes.
func (a *assigner) giveUp() {
	if _, ok := a.members(); ok {
		a.saw = time.Now()
	} else if time.Since(a.saw) > a.m.cfg.aliveFor() {
		a.m.blindUntil.Store(time.Now().Add(a.m.cfg.Lease).UnixNano())
	}
}

// poll reads one node repeatedly, and writes the plan to it when the node holds another one.
func (a *assigner) poll(ctx context.Context, node int) {
	store, l := a.m.store, &a.pollers[node]
	failing := false
	for {
		s, err := store.Look(ctx, node)
		if err != nil && !failing && ctx.Err() == nil {
			a.m.log().Warn("assigner cannot read the members from a redis node", "error", err)
		}
		if failing = err != nil; !failing {
			if p := a.wanted.Load(); p != nil && s.Plan != p.Version && a.term.Valid() {
				// A plan with a higher token is replaced, too: while this term is valid, no
				// assigner can have written it.
				_, _ = store.Publish(ctx, node, p, s.Plan)
			}
			select {
			case a.seen <- snapshot{Snapshot: s, node: node, at: time.Now(), ok: true}:
			case <-ctx.Done():
				return
			}
		}
		if !l.rest(ctx, a.m.cfg.beatEvery()) {
			return
		}
	}
}

// members returns the living members; false while no majority of the nodes has shown them lately.
func (a *assigner) members() (all []group.Member, ok bool) {
	r, answers := newRoll(), 0
	for _, s := range a.snapshots {
		if s.ok && time.Since(s.at) <= a.m.cfg.aliveFor() {
			answers++
			r.add(s.Members)
		}
	}
	majority := a.m.nodes.Majority()
	return r.members(majority), answers >= majority
}

// decide makes a plan, and has the pollers publish it if it differs from the last one.
func (a *assigner) decide() {
	members, ok := a.members()
	if !ok || len(members) == 0 {
		return
	}
	shards := a.m.cfg.Shards
	in := plan.Input{Shards: shards, Owner: none(shards), Planned: a.planned(members)}
	for i, m := range members {
		in.Members = append(in.Members, plan.Member{ID: m.ID + "/" + m.Incarnation, Weight: m.Weight, Closed: m.Closed, Unable: m.Unable})
		for _, s := range m.Owned {
			if s < in.Shards {
				in.Owner[s] = i
			}
		}
	}
	if a.last != nil {
		in.Guest = make([]bool, in.Shards)
		for _, s := range a.last.Guests {
			if s < in.Shards {
				in.Guest[s] = true
			}
		}
	}
	p := a.buildPlan(in.Shards, members, plan.Limit(plan.Make(in), in, a.m.cfg.Moves), in.Owner)
	if a.last != nil && a.wanted.Load() != nil && equal(a.last, p) {
		return
	}
	a.seq++
	p.Version = group.Version{Token: a.term.Token(), Seq: a.seq}
	a.last = p
	a.wanted.Store(p)
	for i := range a.pollers {
		a.pollers[i].wake()
	}
}

// planned returns by shard the member of the last plan, as an index of the living members.
func (a *assigner) planned(members []group.Member) []int {
	if a.last == nil {
		return nil
	}
	index := make([]int, len(a.last.Members))
	for i, pm := range a.last.Members {
		index[i] = slices.IndexFunc(members, func(m group.Member) bool { return m.Incarnation == pm.Incarnation })
	}
	all := a.last.Assignees()
	for s, m := range all {
		if m != group.NoMember {
			all[s] = index[m]
		}
	}
	return all
}

// buildPlan returns the plan as it is published.
func (a *assigner) buildPlan(shards int, members []group.Member, next plan.Plan, owner []int) *group.Plan {
	p := &group.Plan{Shards: shards, Assigned: make([]group.Set, len(members)), Owned: make([]group.Set, len(members)), Heirs: map[int]string{}}
	for _, m := range members {
		p.Members = append(p.Members, group.PlanMember{ID: m.ID, Incarnation: m.Incarnation, Advertise: m.Advertise, Closed: m.Closed})
	}
	for s := range p.Shards {
		to, from := next.Target[s], owner[s]
		if next.Guest[s] {
			p.Guests = append(p.Guests, s)
		}
		if to != group.NoMember {
			p.Assigned[to] = append(p.Assigned[to], s)
		}
		if from != group.NoMember {
			p.Owned[from] = append(p.Owned[from], s)
		}
		if to == from || to == group.NoMember || from == group.NoMember {
			continue
		}
		if incarnation := members[to].Ready[s]; incarnation != "" {
			p.Heirs[s] = incarnation
		}
	}
	return p
}

// equal reports whether two plans give the same shards to the same members.
func equal(a, b *group.Plan) bool {
	return a.Shards == b.Shards && slices.Equal(a.Members, b.Members) && slices.EqualFunc(a.Assigned, b.Assigned, slices.Equal) && slices.EqualFunc(a.Owned, b.Owned, slices.Equal) &&
		slices.Equal(a.Guests, b.Guests) && maps.Equal(a.Heirs, b.Heirs)
}

func none(n int) []int { return slices.Repeat([]int{group.NoMember}, n) }
