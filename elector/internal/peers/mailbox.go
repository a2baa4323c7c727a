package peers

import (
	"sync"
	"sync/atomic"
)

// mailbox is what was received on one channel and is not answered yet, and what the answers
// may cost. Each channel has its own: users who may only call the roll must not displace a
// request to step down, however many messages they send.
type mailbox struct {
	start   func(func())    // runs a function in the background
	sending atomic.Int32    // messages under way
	seen    map[string]bool // nonces; of the goroutine that answers

	mu       sync.Mutex // of received
	received []received
}

// received is a request and the node that it came from. Other candidates of this process share the request.
type received struct {
	node int
	*request
}

// What a flood on a channel costs at most: anyone who makes one gets no answers.
const (
	maxReceived = 256 // messages that wait
	maxSending  = 8   // messages under way: a hung node takes its time for each
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

// fresh reports whether no request with that nonce was received before.
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
