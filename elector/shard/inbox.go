package shard

import "sync"

// inbox is what was reported to a member's reconciler and waits for it. To put an event there
// blocks nobody: a shard that moves is without an owner between the end of its work here and the
// begin elsewhere, and must not wait in that time for one that looks after a thousand others.
type inbox struct {
	arrived chan struct{} // there may be something to take

	mu      sync.Mutex // of all below
	waiting []event
	closed  bool
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

// put adds an event behind those that wait. What comes after close is dropped.
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

// take empties it.
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
