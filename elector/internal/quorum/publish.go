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

// keepEvery is how often a candidate makes the nodes keep the name and the history of its election: its
// leader may report nothing for months.
const keepEvery = 24 * time.Hour

// Keep makes the nodes keep the name and the history of the election, as an event does, unless it has
// done so lately. It does not wait for the requests.
func (v *Voter) Keep() {
	if now := time.Now(); v.kept.IsZero() || now.Sub(v.kept) >= keepEvery {
		v.kept = now
		v.Announce(Report{})
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
// node. Messages of many elections travel together.
func (ns *Nodes) Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) []error {
	return ns.eachNode(ctx, limit, func(ctx context.Context, n *Node) error {
		return rediserr.Needs(n.messages.do(ctx, redis.NewIntCmd(ctx, "publish", channel, payload)), "+publish &"+channel)
	})
}

// PublishTo publishes on one node, at once. It returns how many clients have received the message there; -1 if that
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
		counted := redis.NewMapStringIntCmd(ctx, "pubsub", "numsub", channel)
		if err := n.messages.do(ctx, counted); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		most = max(most, int(counted.Val()[channel]))
		return nil
	})
	return most
}
