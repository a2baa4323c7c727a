package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Announce has every node publish the report and append it to its history. It starts the
// requests and does not wait for them: reporting must never delay a renewal. Each node
// receives the announcements in the order of the calls. One that is not sent within three times the call time-out, as to a
// node that hangs, is not published there any more, and recorded when the node answers again.
func (v *Voter) Announce(r Report) {
	for _, rec := range v.recorders {
		rec.announce(r)
	}
}

// AwaitRecorded waits until a majority of the nodes has recorded all reports, at most for limit: a
// process that is about to end has no later occasion. What a node has not answered is sent to it
// again; one that refuses to record is not waited for.
func (v *Voter) AwaitRecorded(limit time.Duration) {
	for end := time.Now().Add(limit); v.unsettled() && time.Now().Before(end); {
		for _, rec := range v.recorders {
			rec.again()
		}
		// Not all of it at once: a node that hangs must not keep the others' repetition waiting.
		v.background.wait(min(v.cfg.CallTimeout/8, time.Until(end)))
		if !v.unsettled() {
			return
		}
		select {
		case <-v.nodes.Life().Done():
			return
		case <-time.After(min(v.cfg.CallTimeout/8, time.Until(end))):
		}
	}
}

// unsettled reports whether too few nodes for a majority have recorded all reports, or refused to.
func (v *Voter) unsettled() bool {
	settled := 0
	for _, rec := range v.recorders {
		if rec.settled() {
			settled++
		}
	}
	return settled < v.nodes.Majority()
}

// Publish sends to a channel of every node, and waits for each at most for the limit.
func (ns *Nodes) Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) []error {
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return rediserr.Needs(c.Publish(ctx, channel, payload).Err(), "+publish &"+channel)
	})
}

// Request is Publish for what is requested of the candidates of many elections at one time: a
// node takes such requests together.
func (ns *Nodes) Request(ctx context.Context, channel string, payload []byte, limit time.Duration) []error {
	return ns.eachNode(ctx, limit, func(ctx context.Context, n *Node) error {
		_, err := n.requests.Do(ctx, message{channel, payload})
		return err
	})
}

// PublishTo is Publish on one node.
func (ns *Nodes) PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ns.NodeError(node, rediserr.Needs(ns.list[node].rdb.Publish(ctx, channel, payload).Err(), "+publish &"+channel))
}

// Each queries all nodes at once, and waits for each at most for the limit; the errors are by node.
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

// On queries one node, and waits at most for the limit.
func (ns *Nodes) On(ctx context.Context, node int, limit time.Duration, ask func(context.Context, redis.UniversalClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ns.NodeError(node, ask(ctx, ns.list[node].rdb))
}

// Listeners is how many subscribe to a channel, by the node that knows of most; -1
// when no node answers, or when it can't know (a Cluster's nodes count their own). A node is
// asked for those of many channels at once.
func (ns *Nodes) Listeners(ctx context.Context, channel string, limit time.Duration) int {
	var mu sync.Mutex
	most := -1
	ns.eachNode(ctx, limit, func(ctx context.Context, n *Node) error {
		if _, cluster := n.rdb.(*redis.ClusterClient); cluster {
			return nil
		}
		count, err := n.counts.Do(ctx, channel)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, count)
		}
		return err
	})
	return most
}
