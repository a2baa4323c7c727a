package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Announce makes every node publish the report and append it to its history. It does not wait for
// the requests: reporting must never delay a renewal. Each node receives the announcements in the
// order of the calls. If one can't be sent to a node within three times the call time-out, because
// the node hangs, it is no longer published there, only recorded when the node answers again.
func (v *Voter) Announce(r Report) {
	for _, rec := range v.recorders {
		rec.announce(r)
	}
}

// AwaitRecorded blocks until a majority of the nodes has recorded all reports, for at most limit. A
// process that is about to end has no later occasion. Reports that a node did not answer are sent to
// it again; a node that refuses to record is not waited for.
func (v *Voter) AwaitRecorded(limit time.Duration) {
	for end := time.Now().Add(limit); v.unsettled() && time.Now().Before(end); {
		for _, rec := range v.recorders {
			rec.again()
		}
		// In short steps: a node that hangs must not delay the repetition on the others.
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

// unsettled reports whether the nodes that have recorded all reports, or refused to, are no majority.
func (v *Voter) unsettled() bool {
	settled := 0
	for _, rec := range v.recorders {
		if rec.settled() {
			settled++
		}
	}
	return settled < v.nodes.Majority()
}

// Publish publishes on a channel of every node, and waits at most limit for each. The errors are by
// node.
func (ns *Nodes) Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) []error {
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return rediserr.Needs(c.Publish(ctx, channel, payload).Err(), "+publish &"+channel)
	})
}

// Request is Publish for requests to the candidates of many elections at one time: they travel
// together to each node.
func (ns *Nodes) Request(ctx context.Context, channel string, payload []byte, limit time.Duration) []error {
	return ns.eachNode(ctx, limit, func(ctx context.Context, n *Node) error {
		_, err := n.requests.Do(ctx, message{channel, payload})
		return err
	})
}

// PublishTo is Publish on one node. It returns how many clients have received the message there; -1 if that
// is not known, as in a Cluster, whose other servers pass it on.
func (ns *Nodes) PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) (receivers int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rdb := ns.list[node].rdb
	n, err := rdb.Publish(ctx, channel, payload).Result()
	if _, cluster := rdb.(*redis.ClusterClient); cluster {
		n = -1
	}
	return int(n), ns.NodeError(node, rediserr.Needs(err, "+publish &"+channel))
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

// Listeners returns how many clients subscribe to a channel, by the node with the highest count; -1
// if no node answers or can know it (the servers of a Cluster each count only their own). Queries for
// many channels at one time travel together to each node.
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

type message struct {
	channel string
	payload []byte
}

// publishing returns a function that publishes messages in one pipeline, for a coalescer.
func publishing(rdb redis.UniversalClient) func(context.Context, []message) ([]struct{}, []error) {
	return func(ctx context.Context, all []message) ([]struct{}, []error) {
		p, sent, errs := rdb.Pipeline(), make([]*redis.IntCmd, len(all)), make([]error, len(all))
		for i, m := range all {
			sent[i] = p.Publish(ctx, m.channel, m.payload)
		}
		_, _ = p.Exec(ctx) // each command has its own error
		for i, m := range all {
			errs[i] = rediserr.Needs(sent[i].Err(), "+publish &"+m.channel)
		}
		return make([]struct{}, len(all)), errs
	}
}

// counting returns a function that counts the subscribers of channels in one command, for
// a coalescer.
func counting(rdb redis.UniversalClient) func(context.Context, []string) ([]int, []error) {
	return func(ctx context.Context, channels []string) ([]int, []error) {
		found, err := rdb.PubSubNumSub(ctx, channels...).Result()
		counts, errs := make([]int, len(channels)), make([]error, len(channels))
		for i, channel := range channels {
			counts[i], errs[i] = int(found[channel]), err
		}
		return counts, errs
	}
}
