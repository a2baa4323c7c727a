package elector

import (
	"slices"
	"sync"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// inbox holds the reports of an election that were published, until an observer has
// compared them with what Redis shows. Safe for concurrent use.
type inbox struct {
	election string
	own      *ownCandidate // of this process; nil: none
	arrived  chan struct{} // signaled: the election may have changed

	mu       sync.Mutex // of messages
	messages []Event    // that came since the last reading, and are not used up
}

func newInbox(election string, own *ownCandidate) *inbox {
	return &inbox{election: election, own: own, arrived: make(chan struct{}, 1)}
}

// receive runs on the subscription's goroutine. What the candidate of this process publishes is
// left out: its events were reported already, and a reading that brings nothing new would only
// make the observer slower to ask after the next message.
func (b *inbox) receive(s pubsub.Signal) {
	if s.Kind == pubsub.Message {
		ev, err := parseEvent(s.Payload)
		if err != nil || ev.Election != b.election || b.own.is(ev.Incarnation) {
			return
		}
		switch ev.Kind {
		case EventElected, EventReleased:
			b.keep(nil, ev)
		case EventAddress: // a reason to look, and no more
		default:
			return
		}
	}
	b.signal()
}

// signal has the observer look at the election soon.
func (b *inbox) signal() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take empties the inbox.
func (b *inbox) take() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.messages
	b.messages = nil
	return all
}

// waiting is what it holds; it stays there.
func (b *inbox) waiting() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages
}

// putBack returns what take gave and a reading has not used up.
func (b *inbox) putBack(older []Event) { b.keep(older) }

// keep adds messages, older ones before those that wait; the newest stay when there are
// too many.
func (b *inbox) keep(older []Event, newer ...Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = slices.Concat(older, b.messages, newer)
	if more := len(b.messages) - eventBuffer; more > 0 {
		b.messages = slices.Clone(b.messages[more:])
	}
}
