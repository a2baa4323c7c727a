// Package registry reads and changes what the nodes keep of elections beside the votes: who leads, the history,
// pauses, cordons, and which elections there are. It is how operators, status and doctor see and steer an election;
// no candidacy is needed, and nothing here decides who leads.
//
// Its functions query all nodes at once, on their shared connections, and wait for each of them at most for the limit.
package registry

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// minReadWait is what the others get at least once a majority agrees: enough for
// a node that is merely far away, little enough that what was read is not old.
const minReadWait = 250 * time.Millisecond

// Read queries all nodes for what they know, and waits for each of them at most for
// the limit. Once a majority agrees on holder and pause, so that no other answer
// can change who leads, the others get a short time only: one hung node would
// make the answer old. What is left of anything is as of the return. It writes
// nothing, needs no right to, and waits in no queue.
func Read(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit time.Duration) []View {
	return read(ctx, ns, k, limit, minReadWait)
}

// timedView is a node's View and when it came.
type timedView struct {
	View

	node int
	at   time.Time
}

func read(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit, atLeast time.Duration) []View {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	answers := make(chan timedView, ns.Len()) // a late one finds room, and no reader
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

// gather notes the answers until all are there, or until enough are.
func gather(seen []timedView, answers <-chan timedView, enough func() <-chan time.Time) {
	var over <-chan time.Time
	for range seen {
		select {
		case s := <-answers:
			if seen[s.node] = s; over == nil {
				over = enough()
			}
		case <-over:
			// What has come in time counts also when it is read late, on a busy machine.
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

// agree reports whether a majority agrees on who holds the lock, and on a pause.
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

// now takes the time that has passed since the answer off what was left then.
func (s timedView) now(sent time.Time) View {
	v := s.View
	if s.at.IsZero() {
		v.RTT = time.Since(sent)
		return v
	}
	age := time.Since(s.at)
	v.Left, v.Newcomer = max(0, v.Left-age), max(0, v.Newcomer-age)
	if v.PauseLeft > 0 { // 0 would mean that it has no end
		v.PauseLeft = max(time.Millisecond, v.PauseLeft-age)
	}
	return v
}
