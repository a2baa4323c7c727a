package nodes

import (
	"context"
	"time"
)

// Answer is what one node answered to Ask.
type Answer[T any] struct {
	Value T
	Err   error
	At    time.Time // when it came, or when the wait for it was over
	node  int
}

// WaitFactor is how long the other nodes get once a majority has answered, in multiples of the
// majority's time. They get at least MinExtraWait, since timers are no finer. A claim that has to know the answer of
// a rival's node waits for longer.
const (
	WaitFactor   = 4
	MinExtraWait = time.Millisecond
)

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
