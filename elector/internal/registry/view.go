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

// timedView is a node's View and when it arrived.
type timedView struct {
	View

	node int
	at   time.Time
}

func read(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit, atLeast time.Duration) []View {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	answers := make(chan timedView, ns.Len()) // buffered: nothing reads a late answer
	seen := make([]timedView, ns.Len())
	for i, n := range ns.All() {
		seen[i] = timedView{View: View{Node: n.Name, Err: ns.NodeError(i, context.DeadlineExceeded)}, node: i}
		go func() {
			v, err := snapshot(ctx, n, k)
			s := timedView{View: v, node: i, at: time.Now()}
			s.Node, s.RTT, s.Err = n.Name, time.Since(sent), ns.NodeError(i, err)
			answers <- s
		}()
	}
	gather(seen, answers, func() <-chan time.Time {
		if !agree(seen, ns.Majority()) {
			return nil
		}
		return time.After(max(atLeast, quorum.WaitFactor*time.Since(sent)))
	})
	views := make([]View, len(seen))
	for i, s := range seen {
		views[i] = s.now(sent)
	}
	return views
}

// gather collects the answers until all have arrived, or until the time that enough starts is over.
func gather(seen []timedView, answers <-chan timedView, enough func() <-chan time.Time) {
	var over <-chan time.Time
	for range seen {
		select {
		case s := <-answers:
			if seen[s.node] = s; over == nil {
				over = enough()
			}
		case <-over:
			// Answers that arrived in time count even if a busy machine reads them late.
			for {
				select {
				case s := <-answers:
					seen[s.node] = s
				default:
					return
				}
			}
		}
	}
}

// agree reports whether a majority agrees on the holder of the lock and on whether there is a pause.
func agree(seen []timedView, majority int) bool {
	type opinion struct {
		attempt string
		paused  bool
	}
	count := map[opinion]int{}
	for _, s := range seen {
		if s.Err != nil {
			continue
		}
		_, attempt := protocol.AttemptOf(s.Holder)
		o := opinion{attempt + s.Foreign, s.Paused}
		if count[o]++; count[o] >= majority {
			return true
		}
	}
	return false
}

// now returns the View with its remaining times reduced by the time since the answer.
func (s timedView) now(sent time.Time) View {
	v := s.View
	if s.at.IsZero() {
		v.RTT = time.Since(sent)
		return v
	}
	age := time.Since(s.at)
	v.Left, v.Newcomer = max(0, v.Left-age), max(0, v.Newcomer-age)
	if v.PauseLeft > 0 { // 0 would mean that the pause has no end
		v.PauseLeft = max(time.Millisecond, v.PauseLeft-age)
	}
	return v
}
