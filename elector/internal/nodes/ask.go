package nodes

import (
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
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

// Who looks at a thousand elections waits once for a node that hangs: the next ones only briefly, until it answers, or for
// silence.
const (
	silence = 5 * time.Second
	brief   = 20 * time.Millisecond
)

// Silent returns the nodes that somebody has waited for in vain lately, if the others are a majority.
func (ns *Nodes) Silent() (silent []int) {
	for i, n := range ns.list {
		if since := n.silent.Load(); since != nil && time.Since(*since) < silence {
			silent = append(silent, i)
		}
	}
	if ns.Len()-len(silent) < ns.Majority() {
		return nil
	}
	return silent
}

// heard notes that the node has answered, or that it has not in time.
func (n *Node) heard(err error, waited time.Duration) {
	switch {
	case err == nil, rediserr.Answered(err):
		n.silent.Store(nil)
	case rediserr.TimedOut(err) && waited >= commandsOverdue:
		n.silent.Store(new(time.Now()))
	}
}

// Ask queries all nodes at once, and waits at most limit. Once enough says so of the answers so far,
// the other nodes get WaitFactor times as long as that took, but no less than atLeast, unless they are Silent. Their
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
			n.heard(err, time.Since(sent))
			came <- Answer[T]{value, ns.NodeError(i, err), time.Now(), i}
		}()
	}
	over := time.NewTimer(limit) // a client may be slow to give up
	defer over.Stop()
	silent := ns.Silent()
	for missing, waits := ns.Len(), true; missing > 0 && waits; missing-- {
		select {
		case a := <-came:
			all[a.node] = a
			if enough != nil && enough(all) {
				wait := max(atLeast, WaitFactor*time.Since(sent))
				if atLeast > brief && only(silent, all) { // a claim waits as long as it did
					wait = brief
				}
				over.Reset(min(limit-time.Since(sent), wait))
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
			ns.list[i].heard(context.DeadlineExceeded, time.Since(sent))
		}
	}
	return all
}

// only reports whether the nodes that have not answered are among these.
func only[T any](silent []int, all []Answer[T]) bool {
	return len(silent) > 0 && !slices.ContainsFunc(all, func(a Answer[T]) bool { return a.At.IsZero() && !slices.Contains(silent, a.node) })
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
