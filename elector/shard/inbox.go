package shard

import "sync"

// inbox is the unbounded queue of events for a member's reconciler. put does not block: a shard that
// moves has no owner between the end of its work here and its begin on the next member, and must not
// wait in that time for a reconciler that is busy with a thousand other shards.
type inbox struct {
	arrived chan struct{} // signaled when there may be events to take

	mu      sync.Mutex // guards all below
	waiting []event
	closed  bool
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

// put appends an event. Events after close are dropped.
func (b *inbox) put(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.waiting = append(b.waiting, e)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take removes and returns all events.
func (b *inbox) take() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.waiting
	b.waiting = nil
	return all
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.waiting = true, nil
}
