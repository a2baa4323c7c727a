package shard

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
)

// assigner is one term of this member as the assigner. Its fields belong to the reconciler's goroutine.
type assigner struct {
	term *elector.Term
	made *group.Plan      // the last plan of this term; nil: none
	due  <-chan time.Time // when to make a plan; nil: no news
}

// campaignAsAssigner campaigns in the election of the assigner until Run ends.
func (r *reconciler) campaignAsAssigner() {
	m := r.m
	cfg := m.cfg.candidate(ElectionOfAssigner(m.cfg.Group), m.cfg.assignerLease())
	cfg.Probe, cfg.ProbeSettings = m.verdict(func() error { return m.state.Load().unfit })
	e, err := elector.New(m.quorum, cfg)
	if err == nil {
		err = e.Run(r.ctx, func(ctx context.Context, term *elector.Term) error {
			r.send(func() { r.assign(term) })
			<-ctx.Done()
			r.send(func() { r.assign(nil) })
			return nil
		})
	}
	if err != nil && r.ctx.Err() == nil {
		r.send(func() { r.fail("election of the assigner: %w", err) })
	}
}

// assign begins a term as the assigner; nil ends it.
func (r *reconciler) assign(term *elector.Term) {
	r.assigner = nil
	if term != nil {
		r.assigner = &assigner{term: term}
	}
	r.publish()
}

// last returns the plan to continue. Before the first one of this term that is the plan in force, which a
// member that joined just before it became the assigner receives only with the answers to its beats.
func (r *reconciler) last() *group.Plan { return cmp.Or(r.assigner.made, r.plan.Plan) }

// decideSoon has a plan made soon, with the changes that arrive until then.
func (r *reconciler) decideSoon() {
	a, delay := r.assigner, 10*time.Millisecond
	if r.last().Shards == 0 {
		// For members that start together. Else the first one would be given all shards, and
		// then hand most of them over.
		delay = min(r.m.cfg.Lease/10, time.Second/2)
	}
	if a.due == nil {
		a.due = time.After(delay)
	}
}

// members returns the living members; none while no majority of the nodes has shown them lately.
func (r *reconciler) members() []group.Member {
	var lists [][]group.Member
	for i := range r.nodes {
		if n := &r.nodes[i]; time.Since(n.listed) <= r.m.cfg.aliveFor() {
			lists = append(lists, n.members)
		}
	}
	return living(lists, r.m.nodes.Majority())
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

// decide makes a plan, and publishes it if it differs from the last one.
func (r *reconciler) decide() {
	a := r.assigner
	a.due = nil
	members := r.members()
	if len(members) == 0 {
		return
	}
	last := r.last()
	p := group.NewPlan(members, r.m.cfg.Shards, last, moves)
	if a.made != nil && a.made.Equal(p) {
		return
	}
	p.Version = group.Version{Token: a.term.Token(), Seq: last.Version.Seq + 1}
	a.made = p
	r.publish()
}
