package shard

import (
	"fmt"
	"sync"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// settings are what all members of the group must agree on.
func (c Config) settings() group.Settings { return group.Settings{Shards: c.Shards, Lease: c.Lease} }

// agree joins the group when a majority of the nodes has this member's settings, or none, and ends
// Run when a majority has others.
func (r *reconciler) agree() {
	count := map[group.Settings]int{}
	for _, s := range r.shown {
		if s != nil {
			count[*s]++
		}
	}
	ours, majority := r.m.cfg.settings(), r.m.nodes.Majority()
	for s, n := range count {
		if n >= majority && s != ours && s != (group.Settings{}) {
			r.send(failure{fmt.Errorf("shard: group %s: the members of the group have %s, this one %s: "+
				"all members need the same; stop the others first, and wait for two leases, to change it", r.m.cfg.Group, s, ours)})
		}
	}
	if !r.joins && count[ours]+count[group.Settings{}] >= majority {
		r.mu.Lock()
		r.joins = true
		r.mu.Unlock()
		r.wakeLinks()
	}
}

// admission is a lease on this member's settings. A node that has accepted a beat refuses members
// with other settings for two leases; the admission counts one, from before the beat was sent. No
// term begins to work without it: a member that was suspended while the group was stopped, and
// started with another number of shards, could win the lock of one shard and work on keys of others.
type admission struct {
	clock    *lease.Clock
	timing   lease.Timing
	majority int

	mu     sync.Mutex // guards all below
	byNode []lease.Stamp
}

// accepted records that a node has accepted a beat that was sent then.
func (a *admission) accepted(node int, sent lease.Stamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byNode[node] = sent
}

// holds reports whether a majority of the nodes has accepted this member within the last lease.
func (a *admission) holds() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes := 0
	for _, sent := range a.byNode {
		if elapsed, ok := a.clock.Since(sent); ok && !sent.IsZero() && elapsed < a.timing.End() {
			nodes++
		}
	}
	return nodes >= a.majority
}
