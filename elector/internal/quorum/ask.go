package quorum

import (
	"context"
	"slices"
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

// Majority returns what is enough for Ask: a majority has answered without an error.
func Majority[T any](ns *Nodes) func([]Answer[T]) bool {
	return func(all []Answer[T]) bool {
		good := 0
		for _, a := range all {
			if a.Err == nil {
				good++
			}
		}
		return good >= ns.Majority()
	}
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
	return ns.eachNode(ctx, limit, func(ctx context.Context, n *Node) error {
		return rediserr.Needs(n.Do(ctx, redis.NewStatusCmd(ctx, "set", k.Check(), "0", "px", trialLasts.Milliseconds())), "+set ~"+k.Check())
	})
}

// Publish publishes on a channel of every node, and waits at most limit for each. It returns how many clients have
// received the message, by the node with the highest count, and the errors by node; -1 if no node answers or can
// know it (the servers of a Cluster each count only their own).
func (ns *Nodes) Publish(ctx context.Context, channel string, payload []byte, limit time.Duration) (receivers int, errs []error) {
	var mu sync.Mutex // guards receivers
	receivers = -1
	errs = ns.eachNode(ctx, limit, func(ctx context.Context, n *Node) error {
		sent := redis.NewIntCmd(ctx, "publish", channel, payload)
		if err := n.Do(ctx, sent); err != nil {
			return rediserr.Needs(err, "+publish &"+channel)
		}
		mu.Lock()
		defer mu.Unlock()
		if _, cluster := n.rdb.(*redis.ClusterClient); !cluster {
			receivers = max(receivers, int(sent.Val()))
		}
		return nil
	})
	return receivers, errs
}

// PublishTo publishes on one node, at once. It returns how many clients have received the message there; -1 if that
// is not known, as in a Cluster, whose other servers pass it on.
func (ns *Nodes) PublishTo(ctx context.Context, node int, channel string, payload []byte, limit time.Duration) (receivers int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := ns.list[node].rdb.Publish(ctx, channel, payload).Result()
	if ns.Cluster(node) {
		n = -1
	}
	return int(n), ns.NodeError(node, rediserr.Needs(err, "+publish &"+channel))
}

// Do sends plain commands through a queue, in which the commands of a process for this node share a connection, and
// those that meet share a round trip, as when an operator looks at all elections. It blocks until they are answered,
// and returns the error of the first that failed, or until ctx, which must have a deadline, ends; then they must not
// be looked at any more. That a key does not exist is no error.
func (n *Node) Do(ctx context.Context, cmds ...redis.Cmder) error { return n.commands.do(ctx, cmds...) }

// commandsOverdue is how long a call keeps other commands waiting: its connection may be dead.
const commandsOverdue = 250 * time.Millisecond

// commands is the queue of plain commands for a node.
type commands struct {
	queue queue[*asked]
	rdb   redis.UniversalClient
}

// asked are commands that travel together.
type asked struct {
	ctx  context.Context //nolint:containedctx // of its caller: nothing is sent after its end
	cmds []redis.Cmder
	done chan struct{} // closed when they are answered
}

func newCommands(rdb redis.UniversalClient) *commands {
	c := &commands{rdb: rdb}
	c.queue.carry, c.queue.overdue = c.carry, commandsOverdue
	return c
}

func (c *commands) do(ctx context.Context, cmds ...redis.Cmder) error {
	a := &asked{ctx, cmds, make(chan struct{})}
	c.queue.add(a)
	select {
	case <-a.done:
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil && !rediserr.Missing(err) {
				return err
			}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry makes one call for those commands whose callers still wait, until the latest of their deadlines.
func (c *commands) carry(all []*asked) {
	p, until := c.rdb.Pipeline(), time.Time{}
	all = slices.DeleteFunc(all, func(a *asked) bool { return a.ctx.Err() != nil })
	for _, a := range all {
		for _, cmd := range a.cmds {
			_ = p.Process(a.ctx, cmd)
		}
		if at, _ := a.ctx.Deadline(); at.After(until) {
			until = at
		}
	}
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	cmds, err := p.Exec(ctx)
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) { // go-redis leaves them without one where the login failed
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	for _, a := range all {
		close(a.done)
	}
}
