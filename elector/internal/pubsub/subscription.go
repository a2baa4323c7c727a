package pubsub

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Subscription receives the signals of a channel on all nodes. Safe for concurrent use.
type Subscription struct {
	channel string
	filter  func(Signal) bool
	close   func()
	arrived chan struct{}
	most    int // messages that are kept
	of      int // nodes

	mu    sync.Mutex // of all below
	kept  []Signal
	nodes map[int]error // by node; nil: it has confirmed the subscription, else why it refuses it
	all   chan struct{} // closed when every node has confirmed or refused
}

// NewSubscription returns a Subscription of so many nodes that no Bus feeds, for tests: see Bus.Subscribe.
func NewSubscription(nodes, most int, filter func(Signal) bool) *Subscription {
	return &Subscription{
		filter: filter, close: func() {}, arrived: make(chan struct{}, 1), most: most,
		of: nodes, nodes: map[int]error{}, all: make(chan struct{}),
	}
}

// Close ends the subscription. It may be called twice.
func (s *Subscription) Close() { s.close() }

// Arrived is signaled when there is something to take.
func (s *Subscription) Arrived() <-chan struct{} { return s.arrived }

// Take returns the signals kept since the last call.
func (s *Subscription) Take() []Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.kept
	s.kept = nil
	return kept
}

// Receive handles a signal from a node, on the goroutine that reads the subscription to it. Messages leave
// room for the changes of the subscription.
func (s *Subscription) Receive(sig Signal) {
	s.note(sig)
	if !s.filter(sig) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= s.most && (sig.Kind == Message || len(s.kept) >= 2*s.most) {
		return
	}
	s.kept = append(s.kept, sig)
	Wake(s.arrived)
}

// Wake signals a channel with room for one signal. It never blocks.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// note notes that a node has confirmed or refused the subscription. A connection that is lost is made anew.
func (s *Subscription) note(sig Signal) {
	if sig.Kind == Message || sig.Kind == Failed && !rediserr.RefusedSubscribe(sig.Err) {
		return
	}
	s.set(sig.Node, sig.Err)
}

// set notes what has become of the subscription to a node.
func (s *Subscription) set(node int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.nodes)
	s.nodes[node] = err
	if len(s.nodes) == s.of && before < s.of {
		close(s.all)
	}
}

// Without keeps Ready from waiting for a node that is known not to answer, unless it has confirmed the subscription.
func (s *Subscription) Without(node int) {
	s.mu.Lock()
	_, known := s.nodes[node]
	s.mu.Unlock()
	if !known {
		s.set(node, context.DeadlineExceeded)
	}
}

// Listens reports whether a majority of the nodes has confirmed the subscription, or so many refuse it
// that there is no majority to wait for.
func (s *Subscription) Listens() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	confirmed, refused := 0, 0
	for _, err := range s.nodes {
		if err == nil {
			confirmed++
		} else {
			refused++
		}
	}
	return confirmed > s.of/2 || refused >= s.of-s.of/2
}

// Ready blocks until every node has confirmed or refused the subscription, for limit at most, or
// until ctx ends. It returns errors, by node, only if every node refuses, so that no message can
// arrive.
func (s *Subscription) Ready(ctx context.Context, limit time.Duration) (refused []error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-s.all:
	case <-ctx.Done():
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.nodes {
		if s.nodes[i] == nil {
			return nil
		}
	}
	for i := range s.of {
		refused = append(refused, s.nodes[i])
	}
	return refused
}
