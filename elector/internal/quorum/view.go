package quorum

import (
	"context"
	"time"
)

// readPatience is what the others get at least once a majority agrees: enough for
// a node that is merely far away, little enough that what was read is not old.
const readPatience = 250 * time.Millisecond

// Read asks all nodes what they know, and waits for each of them at most for
// the limit. Once a majority agrees on holder and pause, so that no other answer
// can change who leads, the others get a short patience only: one hung node would
// make the answer old. What is left of anything is as of the return. It writes
// nothing, needs no right to, and stands in no lane.
func (ns *Nodes) Read(ctx context.Context, k Keys, limit time.Duration) []View {
	return ns.read(ctx, k, limit, readPatience)
}

// sighting is a node's View and when it came.
type sighting struct {
	View

	node int
	at   time.Time
}

func (ns *Nodes) read(ctx context.Context, k Keys, limit, atLeast time.Duration) []View {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	answers := make(chan sighting, len(ns.list)) // a late one finds room, and nobody
	seen := make([]sighting, len(ns.list))
	for i, n := range ns.list {
		seen[i] = sighting{View: View{Node: n.Name, Err: ns.nodeError(i, context.DeadlineExceeded)}, node: i}
		go func() {
			v, err := n.snapshot(ctx, k)
			s := sighting{View: v, node: i, at: time.Now()}
			s.Node, s.RTT, s.Err = n.Name, time.Since(sent), ns.nodeError(i, err)
			answers <- s
		}()
	}
	gather(seen, answers, func() <-chan time.Time {
		if !agree(seen, ns.Majority()) {
			return nil
		}
		return time.After(max(atLeast, patience*time.Since(sent)))
	})
	views := make([]View, len(seen))
	for i, s := range seen {
		views[i] = s.now(sent)
	}
	return views
}

// gather notes the answers until all are there, or until enough are.
func gather(seen []sighting, answers <-chan sighting, enough func() <-chan time.Time) {
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

// agree tells whether a majority says the same of who holds the lock, and of a pause.
func agree(seen []sighting, majority int) bool {
	type opinion struct {
		attempt string
		paused  bool
	}
	count := map[opinion]int{}
	for _, s := range seen {
		if s.Err != nil {
			continue
		}
		_, attempt := attemptOf(s.Holder)
		o := opinion{attempt + s.Foreign, s.Paused}
		if count[o]++; count[o] >= majority {
			return true
		}
	}
	return false
}

// now takes the time that has passed since the answer off what was left then.
func (s sighting) now(sent time.Time) View {
	v := s.View
	if s.at.IsZero() {
		v.RTT = time.Since(sent)
		return v
	}
	age := time.Since(s.at)
	v.Left, v.Newcomer = max(0, v.Left-age), max(0, v.Newcomer-age)
	if v.PauseLeft > 0 { // 0 would say that it has no end
		v.PauseLeft = max(time.Millisecond, v.PauseLeft-age)
	}
	return v
}
