package quorum

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// View is what one node knows of an election.
type View struct {
	Node      string
	Err       error // set: nothing below is known
	Holder    string
	Left      time.Duration // of the lock
	Fence     uint64
	Known     bool          // the node has a counter
	Newcomer  time.Duration // for this long the node will not vote
	Paused    bool
	Pause     string        // the note of the pause
	PauseLeft time.Duration // 0: it has no end
	Next      string        // incarnation that goes first after a release
	RTT       time.Duration
}

// Read asks all nodes what they know, and waits for each of them at most for
// the limit. It writes nothing and stands in no lane.
func (ns *Nodes) Read(ctx context.Context, k Keys, limit time.Duration) []View {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	views := make([]View, len(ns.list))
	var wg sync.WaitGroup
	for i, n := range ns.list {
		wg.Go(func() {
			sent := time.Now()
			v, err := readScript.Run(ctx, n.rdb, []string{k.Lock, k.Fence, k.New, k.Pause, k.Next}).Slice()
			views[i] = parseView(v, err)
			views[i].Node, views[i].RTT = n.Name, time.Since(sent)
			views[i].Err = ns.nodeError(i, views[i].Err)
		})
	}
	wg.Wait()
	return views
}

func parseView(v []any, err error) View {
	if err != nil {
		return View{Err: err}
	}
	if len(v) < 7 {
		return View{Err: unexpected(v)}
	}
	str := func(i int) string { s, _ := v[i].(string); return s }
	ms := func(i int) time.Duration { return max(0, millis(v[i])) }
	view := View{Holder: str(0), Left: ms(1), Newcomer: ms(3), Paused: str(4) != "", Pause: str(4), PauseLeft: ms(5), Next: str(6)}
	if f, err := strconv.ParseUint(str(2), 10, 64); err == nil {
		view.Fence, view.Known = f, true
	}
	return view
}

// Announce tells the events channel of every node and appends to the history
// stream; front, unless empty, goes to the wake channel first. It starts the
// requests and does not wait for them: reporting must never delay a renewal.
func (v *Voter) Announce(event []byte, front string) {
	k := v.seat.Keys
	args := []any{event, historyLength, k.Events, k.Wake, front}
	for _, n := range v.nodes.list {
		v.background.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), v.seat.CallTimeout)
			defer cancel()
			_ = announceScript.Run(ctx, n.rdb, []string{k.History}, args...).Err()
		})
	}
}

// History reads the newest entries of the history stream, newest first, from
// the first node that answers with any.
func (ns *Nodes) History(ctx context.Context, k Keys, count int64) ([]string, error) {
	var last error
	for i, n := range ns.list {
		entries, err := n.rdb.XRevRangeN(ctx, k.History, "+", "-", count).Result()
		if err != nil {
			last = ns.nodeError(i, err)
			continue
		}
		events := make([]string, 0, len(entries))
		for _, e := range entries {
			if s, ok := e.Values["event"].(string); ok {
				events = append(events, s)
			}
		}
		if len(events) > 0 {
			return events, nil
		}
	}
	return nil, last
}

func ping(ctx context.Context, c redis.UniversalClient) error { return c.Ping(ctx).Err() }

// Publish tells a channel of every node, and waits for each at most for the limit.
func (ns *Nodes) Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) []error {
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return c.Publish(ctx, channel, payload).Err()
	})
}

// PublishTo is Publish on one node.
func (ns *Nodes) PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ns.nodeError(node, ns.list[node].rdb.Publish(ctx, channel, payload).Err())
}

// Pause makes every node refuse claims, for d, or until Resume when d is 0.
func (ns *Nodes) Pause(ctx context.Context, k Keys, note string, d, limit time.Duration) []error {
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, k.Pause, note, d).Err()
	})
}

// Resume ends a pause.
func (ns *Nodes) Resume(ctx context.Context, k Keys, limit time.Duration) []error {
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return c.Del(ctx, k.Pause).Err()
	})
}

// each asks all nodes at once; the errors are by node.
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

// Listeners is how many listen to a channel, by the node that knows of most; -1
// when no node tells, or when it can't know (a Cluster's nodes count their own).
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
