package nodes

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Each calls ask for all nodes at once, and waits at most limit for each. The errors are by node.
func (ns *Nodes) Each(ctx context.Context, limit time.Duration, ask func(context.Context, redis.UniversalClient) error) []error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	errs := make([]error, len(ns.list))
	var wg sync.WaitGroup
	for i, n := range ns.list {
		wg.Go(func() {
			n.open.ask(limit / 8)
			errs[i] = ns.NodeError(i, ask(ctx, n.rdb))
		})
	}
	wg.Wait()
	return errs
}

// On calls ask for one node, and waits at most limit.
func (ns *Nodes) On(ctx context.Context, node int, limit time.Duration, ask func(context.Context, redis.UniversalClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns.list[node].open.ask(limit / 8)
	return ns.NodeError(node, ask(ctx, ns.list[node].rdb))
}

// trialLasts is how long the key that TryWrite writes lives.
const trialLasts = 100 * time.Millisecond

// TryWrite writes a short-lived key to every node, and waits at most limit for each: a node that
// can be read may still refuse every write, for want of memory or disk. The errors are by
// node. An error for which rediserr.Denied is true proves nothing about other users.
func (ns *Nodes) TryWrite(ctx context.Context, k *protocol.Keys, limit time.Duration) []error {
	try := func(ctx context.Context, n *Node) (struct{}, error) {
		return struct{}{}, rediserr.Needs(n.Do(ctx, redis.NewStatusCmd(ctx, "set", k.Check(), "0", "px", trialLasts.Milliseconds())), "+set ~"+k.Check())
	}
	var errs []error
	for _, a := range Ask(ctx, ns, limit, limit, try, Majority[struct{}](ns)) {
		errs = append(errs, a.Err)
	}
	return errs
}

// Publish publishes on a channel of every node, and waits at most limit for each. It returns how many clients have
// received the message, by the node with the highest count, and the errors by node; -1 if no node answers or can
// know it (the servers of a Cluster each count only their own).
func (ns *Nodes) Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) (receivers int, errs []error) {
	publish := func(ctx context.Context, n *Node) (int, error) {
		sent := redis.NewIntCmd(ctx, "publish", channel, payload)
		err := n.Do(ctx, sent)
		if _, cluster := n.rdb.(*redis.ClusterClient); cluster || err != nil {
			return -1, rediserr.Needs(err, "+publish &"+channel)
		}
		return int(sent.Val()), nil
	}
	receivers = -1
	for _, a := range Ask(ctx, ns, limit, limit, publish, Majority[int](ns)) {
		errs = append(errs, a.Err)
		if a.Err == nil {
			receivers = max(receivers, a.Value)
		}
	}
	return receivers, errs
}

// PublishTo publishes on one node, at once. It returns how many clients have received the message there; -1 if that
// is not known, as in a Cluster, whose other servers pass it on.
func (ns *Nodes) PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) (receivers int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns.list[node].open.ask(limit / 8)
	n, err := ns.list[node].rdb.Publish(ctx, channel, payload).Result()
	if ns.Cluster(node) {
		n = -1
	}
	return int(n), ns.NodeError(node, rediserr.Needs(err, "+publish &"+channel))
}
