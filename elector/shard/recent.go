package shard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// recent is a lease on the number of shards, from the nodes' answers to beats. For a while after the
// nodes have returned a number, a term may begin to work with it without a query; for as long, no
// shard is noted as cut once the nodes have another number (settle).
type recent struct {
	timing lease.Timing // of that lease
	clock  atomic.Pointer[lease.Clock]

	mu     sync.Mutex // guards all below
	byNode []lastSeen
}

// lastSeen is the number of shards in a node's last answer, and when its request was sent.
type lastSeen struct {
	shards int
	sent   lease.Stamp
}

func newRecent(nodes int, every time.Duration) *recent {
	r := &recent{timing: lease.Timing{Lease: 2 * every}, byNode: make([]lastSeen, nodes)}
	r.clock.Store(lease.NewClock(nil))
	return r
}

// run takes over the clock of a simulation from ctx, if there is one.
func (r *recent) run(ctx context.Context) {
	if c := lease.ClockFrom(ctx); c != nil {
		r.clock.Store(c)
	}
}

// now returns the time to pass to saw. Call it before the request is sent, because a node may answer
// long before the answer arrives.
func (r *recent) now() lease.Stamp { return r.clock.Load().Now() }

// saw records the number of shards that a node has answered; 0: it has none.
func (r *recent) saw(node, shards int, sent lease.Stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byNode[node] = lastSeen{shards, sent}
}

// has reports whether a majority of the nodes has returned this number of shards so recently that no
// term with another number can have noted a shard as cut.
func (r *recent) has(shards, majority int) bool {
	r.mu.Lock()
	all := slices.Clone(r.byNode)
	r.mu.Unlock()
	nodes := 0
	for _, s := range all {
		if s.shards != shards {
			continue
		}
		if elapsed, ok := r.clock.Load().Since(s.sent); ok && elapsed < r.timing.End() {
			nodes++
		}
	}
	return nodes >= majority
}

// settleTime is how long after a majority of the nodes has other settings no member relies on the earlier
// ones any more, even if its clock is slower than ours.
func (r *recent) settleTime() time.Duration { return r.timing.Lease + r.timing.Drift() }
