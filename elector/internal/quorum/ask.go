package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Answer is what one node answered to Ask.
type Answer[T any] struct {
	Value T
	Err   error
	At    time.Time // when it came, or when the wait for it was over
	node  int
}

// Ask queries all nodes at once, and waits at most limit. Once enough says so of the answers so far,
// the other nodes get WaitFactor times as long as that took, but no less than atLeast. Their
// requests are not cancelled then: that would cost a connection each time.
func Ask[T any](ctx context.Context, ns *Nodes, limit, atLeast time.Duration,
	query func(context.Context, *Node) (T, error), enough func([]Answer[T]) bool,
) []Answer[T] {
	sent := time.Now()
	came := make(chan Answer[T], ns.Len()) // buffered: nothing reads a late answer
	all := make([]Answer[T], ns.Len())
	for i, n := range ns.All() {
		all[i] = Answer[T]{node: i, Err: ns.NodeError(i, context.DeadlineExceeded)}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			value, err := query(ctx, n)
			came <- Answer[T]{value, ns.NodeError(i, err), time.Now(), i}
		}()
	}
	over := time.NewTimer(limit) // a client may be slow to give up
	defer over.Stop()
	for missing, waits := ns.Len(), true; missing > 0 && waits; missing-- {
		select {
		case a := <-came:
			all[a.node] = a
			if enough != nil && enough(all) {
				over.Reset(min(limit-time.Since(sent), max(atLeast, WaitFactor*time.Since(sent))))
				enough = nil
			}
		case <-over.C:
			waits = false
		}
	}
	for range len(came) { // what arrived in time counts even if a busy machine reads it late
		a := <-came
		all[a.node] = a
	}
	for i := range all {
		if all[i].At.IsZero() {
			all[i].At = time.Now()
		}
	}
	return all
}

// Each calls ask for all nodes at once, and waits at most limit for each. The errors are by node.
func (ns *Nodes) Each(ctx context.Context, limit time.Duration, ask func(context.Context, redis.UniversalClient) error) []error {
	return ns.eachNode(ctx, limit, func(ctx context.Context, n *Node) error { return ask(ctx, n.rdb) })
}

func (ns *Nodes) eachNode(ctx context.Context, limit time.Duration, ask func(context.Context, *Node) error) []error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	errs := make([]error, len(ns.list))
	var wg sync.WaitGroup
	for i, n := range ns.list {
		wg.Go(func() { errs[i] = ns.NodeError(i, ask(ctx, n)) })
	}
	wg.Wait()
	return errs
}

// On calls ask for one node, and waits at most limit.
func (ns *Nodes) On(ctx context.Context, node int, limit time.Duration, ask func(context.Context, redis.UniversalClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ns.NodeError(node, ask(ctx, ns.list[node].rdb))
}

// trialLasts is how long the key that TryWrite writes lives.
const trialLasts = 100 * time.Millisecond

// TryWrite writes a short-lived key to every node, and waits at most limit for each: a node that
// can be read may still refuse every write, for want of memory or disk. The errors are by
// node. An error for which rediserr.Denied is true proves nothing about other users.
func (ns *Nodes) TryWrite(ctx context.Context, k *protocol.Keys, limit time.Duration) []error {
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return rediserr.Needs(c.Set(ctx, k.Check(), "0", trialLasts).Err(), "+set ~"+k.Check())
	})
}
