package shard

import (
	"cmp"
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

// assigner makes the plans during one term of this member as the assigner. Its fields belong to run's
// goroutine, except those that its pollers use.
type assigner struct {
	m    *Member
	r    *reconciler
	term *elector.Term
	last *group.Plan // the plan in force; nil: none
	seq  uint64
	saw  time.Time // when a majority of the nodes had last shown the members

	news    link
	pollers []link                     // by node
	wanted  atomic.Pointer[group.Plan] // what the pollers publish

	mu     sync.Mutex // guards all below
	byNode []snapshot
}

// snapshot is the members that a node has returned, and when; the zero value: none yet.
type snapshot struct {
	members []group.Member
	at      time.Time
}

func newAssigner(r *reconciler, term *elector.Term) *assigner {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &assigner{m: r.m, r: r, term: term, last: r.seen, saw: time.Now(), news: newLink(), byNode: make([]snapshot, len(r.nodes))}
	for range r.nodes {
		a.pollers = append(a.pollers, newLink())
	}
	return a
}

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
	for a.news.rest(ctx, a.m.cfg.beatEvery()) {
		delay := 10 * time.Millisecond // for changes that arrive together
		if a.last == nil {
			// For members that start together. Else the first one would be given all shards, and
			// then hand most of them over.
			delay = min(a.m.cfg.Lease/10, time.Second/2)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		a.decide()
	}
}

// poll reads one node repeatedly, and writes the plan to it when the node holds another one.
func (a *assigner) poll(ctx context.Context, node int) {
	failing := false
	for ok := true; ok; ok = a.pollers[node].rest(ctx, a.m.cfg.beatEvery()) {
		members, version, err := a.m.store.Look(ctx, node)
		if err != nil && !failing && ctx.Err() == nil {
			a.m.log().Warn("assigner cannot read the members from a redis node", "error", err)
		}
		if failing = err != nil; failing {
			continue
		}
		if p := a.wanted.Load(); p != nil && version != p.Version && a.term.Valid() {
			// A plan with a higher token is replaced, too: while this term is valid, no
			// assigner can have written it.
			_ = a.m.store.Publish(ctx, node, p, version)
		}
		a.mu.Lock()
		a.byNode[node] = snapshot{members, time.Now()}
		a.mu.Unlock()
		a.news.wake()
	}
}

// members returns the living members; false while no majority of the nodes has shown them lately.
func (a *assigner) members() (all []group.Member, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var lists [][]group.Member
	for _, s := range a.byNode {
		if time.Since(s.at) <= a.m.cfg.aliveFor() {
			lists = append(lists, s.members)
		}
	}
	majority := a.m.nodes.Majority()
	return living(lists, majority), len(lists) >= majority
}

// living returns the members that a majority of the nodes lists, each with its newest record, sorted by
// id. A member that reaches fewer nodes can't hold a lock.
func living(byNode [][]group.Member, majority int) (all []group.Member) {
	newest, nodes := map[string]group.Member{}, map[string]int{}
	for _, members := range byNode {
		for _, m := range members {
			nodes[m.Incarnation]++
			if old, known := newest[m.Incarnation]; !known || m.Seq > old.Seq {
				newest[m.Incarnation] = m
			}
		}
	}
	for incarnation, m := range newest {
		if nodes[incarnation] >= majority {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(x, y group.Member) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Incarnation, y.Incarnation))
	})
	return all
}

// decide makes a plan, and has the pollers publish it if it differs from the last one.
func (a *assigner) decide() {
	members, ok := a.members()
	if ok {
		a.saw = time.Now()
	} else if until := time.Now().Add(a.m.cfg.Lease); time.Since(a.saw) > a.m.cfg.aliveFor() {
		a.r.send(func() { a.r.blindUntil = until }) // others may be able to read them
	}
	if len(members) == 0 {
		return
	}
	shards := a.m.cfg.Shards
	in := plan.Input{Shards: shards, Owner: none(shards), Planned: a.planned(members), Guest: make([]bool, shards)}
	for i, m := range members {
		in.Members = append(in.Members, plan.Member{ID: m.ID + "/" + m.Incarnation, Weight: m.Weight, Closed: m.Closed, Unable: m.Unable})
		for _, s := range m.Owned {
			if s < shards {
				in.Owner[s] = i
			}
		}
	}
	if a.last != nil {
		for _, s := range a.last.Guests {
			if s < shards { // in a forged plan there may be others
				in.Guest[s] = true
			}
		}
	}
	p := a.buildPlan(members, plan.Limit(plan.Make(in), in, a.m.cfg.Moves), in.Owner)
	if a.last != nil && a.wanted.Load() != nil && equal(a.last, p) {
		return
	}
	a.seq++
	p.Version = group.Version{Token: a.term.Token(), Seq: a.seq}
	a.last = p
	a.wanted.Store(p)
	for _, l := range a.pollers {
		l.wake()
	}
}

// planned returns by shard the member of the last plan, as an index of the living members.
func (a *assigner) planned(members []group.Member) []int {
	if a.last == nil {
		return nil
	}
	all := none(a.m.cfg.Shards)
	for i, pm := range a.last.Members {
		now := slices.IndexFunc(members, func(m group.Member) bool { return m.Incarnation == pm.Incarnation })
		for _, s := range a.last.Assigned[i] {
			if s < len(all) {
				all[s] = now
			}
		}
	}
	return all
}

// buildPlan returns the plan as it is published.
func (a *assigner) buildPlan(members []group.Member, next plan.Plan, owner []int) *group.Plan {
	p := &group.Plan{Shards: len(owner), Assigned: make([]group.Set, len(members)), Owned: make([]group.Set, len(members)), Heirs: map[int]string{}}
	for _, m := range members {
		p.Members = append(p.Members, group.PlanMember{ID: m.ID, Incarnation: m.Incarnation, Advertise: m.Advertise, Closed: m.Closed})
	}
	for s, from := range owner {
		to := next.Target[s]
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
	return slices.Equal(a.Members, b.Members) && slices.EqualFunc(a.Assigned, b.Assigned, slices.Equal) && slices.EqualFunc(a.Owned, b.Owned, slices.Equal) &&
		slices.Equal(a.Guests, b.Guests) && maps.Equal(a.Heirs, b.Heirs)
}

func none(n int) []int { return slices.Repeat([]int{group.NoMember}, n) }
