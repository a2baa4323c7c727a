package peers

import (
	"sync"
	"sync/atomic"
)

// mailbox holds the requests received on one channel that are not answered yet, and bounds the
// cost of the answers. Each channel has its own mailbox: users who may only call the roll must
// not displace a request to step down, however many messages they send.
type mailbox struct {
	start   func(func())    // runs a function in the background
	sending atomic.Int32    // messages under way
	seen    map[string]bool // nonces; owned by the goroutine that answers

	mu       sync.Mutex // of received
	received []received
}

// received is a request and the node that it came from. All candidates of this process share the
// request, and must not change it.
type received struct {
	node int
	*request
}

// Bounds of what a flood of messages on a channel can cost. What exceeds them is dropped.
const (
	maxReceived = 256 // requests that wait for an answer
	maxSending  = 8   // messages under way, each of which a hung node delays until its time-out
)

func newMailbox(start func(func())) *mailbox {
	return &mailbox{start: start}
}

func (b *mailbox) put(r received) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.received) < maxReceived {
		b.received = append(b.received, r)
	}
}

func (b *mailbox) take() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.received
	b.received = nil
	return all
}

// fresh reports whether a request with that nonce arrives for the first time.
func (b *mailbox) fresh(nonce string) bool {
	if nonce == "" || b.seen[nonce] {
		return false
	}
	if b.seen == nil || len(b.seen) >= maxReceived {
		b.seen = map[string]bool{}
	}
	b.seen[nonce] = true
	return true
}

// background runs f, unless too much is under way already.
func (b *mailbox) background(f func()) {
	if b.sending.Add(1) > maxSending {
		b.sending.Add(-1)
		return
	}
	b.start(func() {
		defer b.sending.Add(-1)
		f()
	})
}
