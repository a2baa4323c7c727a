package shard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// recent is what the nodes have answered to the beats of late. The number of shards is held by a
// lease as a lock is: for a while after the nodes have shown it a term may begin to work for it
// without a query, and for as long no shard is noted as cut once they have another one (settle).
type recent struct {
	timing lease.Timing // of that lease
	clock  atomic.Pointer[lease.Clock]

	mu     sync.Mutex // of all below
	byNode []lastSeen
}

// lastSeen is how many shards a node had after a request was sent.
type lastSeen struct {
	shards int
	sent   lease.Stamp
}

func newRecent(nodes int, every time.Duration) *recent {
	r := &recent{timing: lease.Timing{Lease: 2 * every}, byNode: make([]lastSeen, nodes)}
	r.clock.Store(lease.NewClock(nil))
	return r
}

// run takes the clock of a simulation.
func (r *recent) run(ctx context.Context) {
	if c := lease.ClockFrom(ctx); c != nil {
		r.clock.Store(c)
	}
}

// now is for saw: before the request is sent, because a node may answer long before the
// answer arrives.
func (r *recent) now() lease.Stamp { return r.clock.Load().Now() }

// saw takes the number of shards that a node has answered; 0: it has none.
func (r *recent) saw(node, shards int, sent lease.Stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byNode[node] = lastSeen{shards, sent}
}

// has reports whether so many nodes have shown this number that no term with another one has
// noted a shard as cut.
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

// over is how long after a majority of the nodes has other settings no member relies on those of
// before, whose clock may be slower than ours.
func (r *recent) over() time.Duration { return r.timing.Lease + r.timing.Drift() }
