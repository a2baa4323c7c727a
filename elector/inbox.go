package elector

import (
	"slices"
	"sync"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// inbox holds the reports that the candidates of an election published, until an observer has
// compared them with what Redis shows. Safe for concurrent use.
type inbox struct {
	election string
	own      *candidate    // in this process; nil: none
	arrived  chan struct{} // signaled: the election may have changed

	mu       sync.Mutex // guards messages
	messages []Event    // that arrived since the last reading, or that it could not use yet
}

func newInbox(election string, own *candidate) *inbox {
	return &inbox{election: election, own: own, arrived: make(chan struct{}, 1)}
}

// receive runs on the subscription's goroutine. It ignores messages of the candidate in this
// process: their events were reported already, and a query that finds nothing new would only make
// the observer wait longer after the next message.
func (b *inbox) receive(s pubsub.Signal) (keep bool) {
	if s.Kind == pubsub.Message {
		ev, err := eventIn(s.Payload)
		if err != nil || ev.Election != b.election || b.own.is(ev.Incarnation) {
			return false
		}
		if ev.Kind != EventElected && ev.Kind != EventReleased {
			return false
		}
		b.keep(nil, ev)
	}
	b.signal()
	return false
}

// signal makes the observer query the election soon.
func (b *inbox) signal() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take returns all messages and empties the inbox.
func (b *inbox) take() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.messages
	b.messages = nil
	return all
}

// waiting returns all messages and leaves them in the inbox.
func (b *inbox) waiting() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages
}

// putBack puts messages back that take returned and a reading could not use yet.
func (b *inbox) putBack(older []Event) { b.keep(older) }

// keep adds messages, the older ones in front of those in the inbox. When there are too many, the
// newest stay.
func (b *inbox) keep(older []Event, newer ...Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = slices.Concat(older, b.messages, newer)
	if more := len(b.messages) - eventBuffer; more > 0 {
		b.messages = slices.Clone(b.messages[more:])
	}
}
