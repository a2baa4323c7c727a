package peers

import "sync/atomic"

// mailbox holds the requests received on one channel that are not answered yet, and bounds the
// cost of the answers. Each channel has its own mailbox: users who may only call the roll must
// not displace a request to step down, however many messages they send.
type mailbox struct {
	received chan received
	start    func(func())    // runs a function in the background
	sending  atomic.Int32    // messages under way
	seen     map[string]bool // nonces; owned by the goroutine that answers
}

// received is a request and the node that it came from.
type received struct {
	node int
	*request
}

// Bounds of what a flood of messages on a channel can cost. What exceeds them is dropped.
const (
	maxSeen    = 256 // nonces that are remembered
	maxSending = 8   // messages under way, each of which a hung node delays until its time-out
)

// newMailbox returns a mailbox for so many requests that wait for an answer.
func newMailbox(start func(func()), waiting int) *mailbox {
	return &mailbox{received: make(chan received, waiting), start: start}
}

func (b *mailbox) put(r received) {
	select {
	case b.received <- r:
	default:
	}
}

// fresh reports whether a request with that nonce arrives for the first time.
func (b *mailbox) fresh(nonce string) bool {
	if nonce == "" || b.seen[nonce] {
		return false
	}
	if b.seen == nil || len(b.seen) >= maxSeen {
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
