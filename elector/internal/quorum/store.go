package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Announce has every node publish the report and append it to its history. It starts the
// requests and does not wait for them: reporting must never delay a renewal. Each node
// receives the announcements in the order of the calls.
func (v *Voter) Announce(r Report) {
	for _, rec := range v.recorders {
		rec.announce(r)
	}
}

func ping(ctx context.Context, c redis.UniversalClient) error { return c.Ping(ctx).Err() }

// Publish sends to a channel of every node, and waits for each at most for the limit.
func (ns *Nodes) Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) []error {
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return needs(c.Publish(ctx, channel, payload).Err(), "+publish &"+channel)
	})
}

// PublishTo is Publish on one node.
func (ns *Nodes) PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ns.nodeError(node, needs(ns.list[node].rdb.Publish(ctx, channel, payload).Err(), "+publish &"+channel))
}

// each queries all nodes at once; the errors are by node.
func (ns *Nodes) each(ctx context.Context, limit time.Duration, ask func(context.Context, redis.UniversalClient) error) []error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	errs := make([]error, len(ns.list))
	var wg sync.WaitGroup
	for i, n := range ns.list {
		wg.Go(func() { errs[i] = ns.nodeError(i, ask(ctx, n.rdb)) })
	}
	wg.Wait()
	return errs
}

// On queries one node, and waits at most for the limit.
func (ns *Nodes) On(ctx context.Context, node int, limit time.Duration, ask func(context.Context, redis.UniversalClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ns.nodeError(node, ask(ctx, ns.list[node].rdb))
}

// Listeners is how many subscribe to a channel, by the node that knows of most; -1
// when no node answers, or when it can't know (a Cluster's nodes count their own).
func (ns *Nodes) Listeners(ctx context.Context, channel string, limit time.Duration) int {
	var mu sync.Mutex
	most := -1
	ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		if _, cluster := c.(*redis.ClusterClient); cluster {
			return nil
		}
		counts, err := c.PubSubNumSub(ctx, channel).Result()
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, int(counts[channel]))
		}
		return err
	})
	return most
}
