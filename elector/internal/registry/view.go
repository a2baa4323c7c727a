// Package registry reads and changes what the nodes keep of elections, without voting: the leader, the
// history, pauses, and the list of elections. Operators, status and doctor use it. It needs
// no candidate, and nothing in it decides who leads.
//
// Its functions query all nodes at once, on the shared connections of quorum.Nodes, and wait at most
// limit for each node.
package registry

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// minReadWait is the minimum time that the other nodes get once a majority agrees:
// enough for a node that is only far away, short enough that the answers are not old.
const minReadWait = 250 * time.Millisecond

// Read queries all nodes for their view of an election, and waits at most limit for
// each. Once a majority agrees on holder and pause, so that no other answer can change
// the leader, the other nodes get only a short time: waiting for one that hangs would
// make the views old. Remaining times are as of the return. Read writes nothing, needs
// no right to write, and waits in no queue.
func Read(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit time.Duration) []View {
	return read(ctx, ns, k, limit, minReadWait)
}

func read(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit, atLeast time.Duration) []View {
	sent := time.Now()
	query := func(ctx context.Context, n *quorum.Node) (View, error) { return snapshot(ctx, n, k) }
	answers := ask(ctx, ns, limit, atLeast, query, func(all []answer[View]) bool { return agree(all, ns.Majority()) })
	views := make([]View, len(answers))
	for i, a := range answers {
		views[i] = a.value.after(time.Since(a.at))
		views[i].Node, views[i].Err, views[i].RTT = ns.All()[i].Name, a.err, a.at.Sub(sent)
	}
	return views
}

// answer is what one node answered.
type answer[T any] struct {
	node  int
	value T
	err   error
	at    time.Time // when it came, or when the wait for it was over
}

// ask queries all nodes at once, and waits at most limit. Once enough says so of the answers so far,
// the other nodes get quorum.WaitFactor times as long as that took, but no less than atLeast. Their
// requests are not cancelled then: that would cost a connection each time.
func ask[T any](ctx context.Context, ns *quorum.Nodes, limit, atLeast time.Duration,
	query func(context.Context, *quorum.Node) (T, error), enough func([]answer[T]) bool,
) []answer[T] {
	sent := time.Now()
	came := make(chan answer[T], ns.Len()) // buffered: nothing reads a late answer
	all := make([]answer[T], ns.Len())
	for i, n := range ns.All() {
		all[i] = answer[T]{node: i, err: ns.NodeError(i, context.DeadlineExceeded)}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			value, err := query(ctx, n)
			came <- answer[T]{i, value, ns.NodeError(i, err), time.Now()}
		}()
	}
	over := time.NewTimer(limit) // a client may be slow to give up
	defer over.Stop()
	for missing, waits := ns.Len(), true; missing > 0 && waits; missing-- {
		select {
		case a := <-came:
			all[a.node] = a
			if enough != nil && enough(all) {
				over.Reset(min(limit-time.Since(sent), max(atLeast, quorum.WaitFactor*time.Since(sent))))
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
		if all[i].at.IsZero() {
			all[i].at = time.Now()
		}
	}
	return all
}

// agree reports whether a majority agrees on the holder of the lock and on whether there is a pause.
func agree(seen []answer[View], majority int) bool {
	type opinion struct {
		attempt string
		paused  bool
	}
	count := map[opinion]int{}
	for _, s := range seen {
		if s.err != nil {
			continue
		}
		_, attempt := protocol.AttemptOf(s.value.Holder)
		o := opinion{attempt + s.value.Foreign, s.value.Paused}
		if count[o]++; count[o] >= majority {
			return true
		}
	}
	return false
}

// after returns the View with its remaining times reduced by the time since the answer.
func (v View) after(age time.Duration) View {
	v.Left, v.Newcomer = max(0, v.Left-age), max(0, v.Newcomer-age)
	if v.PauseLeft > 0 { // 0 would mean that the pause has no end
		v.PauseLeft = max(time.Millisecond, v.PauseLeft-age)
	}
	return v
}
