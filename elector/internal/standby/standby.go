// Package standby decides when a follower claims again: when the lease that it last saw
// ends, or earlier when a release is published. The decision is pure (decision.go); the
// Waiter passes answers, messages and the time to it, and waits.
package standby

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Subscriber is the part of pubsub.Bus that a Waiter needs.
type Subscriber interface {
	Subscribe(channel string, notify func(pubsub.Signal)) (unsubscribe func())
	Subscribers(channel string) int
}

// Config configures a Waiter.
type Config struct {
	Settings

	Bus  Subscriber
	Keys *protocol.Keys
	// ParseEvent converts a message of the events channel to one of the wake channel. It
	// returns false for a message of another election, and for one that reports neither an
	// election nor the end of a term.
	ParseEvent func(payload string) (protocol.WakeMessage, bool)
	// NotSubscribed is called with the reason when the subscription to a node fails. Without
	// messages, only the time decides when to claim.
	NotSubscribed func(error)
	// Listening is called when a majority of the nodes has confirmed the subscription to the wake
	// channel, or when so many refuse a subscription that no majority can. It may be nil.
	Listening func()
}

// Waiter waits for the time to claim. It belongs to the goroutine that campaigns, to which a channel
// brings the messages. A message is a hint: only a claim shows the state of the locks.
type Waiter struct {
	c          Config
	d          decision
	timer      *time.Timer
	signals    chan pubsub.Signal
	stopEvents func()
	stopWake   func()       // nil while not in the front row
	joined     map[int]bool // nodes that have confirmed the subscription to the wake channel
	refusals   map[int]bool // nodes that refuse a subscription
}

// maxSignals is how many signals wait for the campaigning goroutine, which blocks during a claim. More
// messages than the nodes send for a few terms are a flood: those that find no room are lost, like
// messages that were never delivered.
const maxSignals = 64

// New subscribes to elections and releases, until Close.
func New(c Config) *Waiter {
	w := &Waiter{c: c, d: decision{Settings: c.Settings}, timer: time.NewTimer(0), signals: make(chan pubsub.Signal, maxSignals)}
	w.timer.Stop()
	w.stopEvents = c.Bus.Subscribe(c.Keys.Events, w.put)
	return w
}

// put runs on the subscription's goroutine. Messages leave room for the changes of the subscription.
func (w *Waiter) put(s pubsub.Signal) {
	if s.Kind == pubsub.Message && len(w.signals) >= maxSignals/2 {
		return
	}
	select {
	case w.signals <- s:
	default:
	}
}

// Close ends the subscriptions.
func (w *Waiter) Close() {
	w.timer.Stop()
	w.stopEvents()
	w.LeaveFrontRow()
}

// LeaveFrontRow makes room for another candidate, which can claim when a leader releases.
func (w *Waiter) LeaveFrontRow() {
	if w.stopWake == nil {
		return
	}
	w.stopWake()
	w.stopWake, w.joined = nil, nil
	w.d.inRow = false
}

// Signals gets what Receive takes, for a candidate that does not wait to claim.
func (w *Waiter) Signals() <-chan pubsub.Signal { return w.signals }

// ForgetMessages drops all messages received so far: the claim that follows reads the state from
// Redis.
func (w *Waiter) ForgetMessages() {
	for {
		select {
		case s := <-w.signals:
			w.Receive(s)
			continue
		default:
		}
		w.d.notices = notices{}
		return
	}
}

// Lost plans the next claim from the answers to a lost one, and joins or leaves the front row.
func (w *Waiter) Lost(t quorum.Tally) {
	w.d.localFollowers = neighbours{waiters: w.c.Bus.Subscribers(w.c.Keys.Wake), listening: w.c.Bus.Subscribers(w.c.Keys.Events)}
	w.d.lost(t, time.Now())
	switch w.d.changeRow() {
	case join:
		w.d.inRow = true
		w.stopWake = w.c.Bus.Subscribe(w.c.Keys.Wake, w.put)
	case leave:
		w.LeaveFrontRow()
	case stay:
	}
}

// Refused postpones the next claim of a candidate that could win but must not lead. Call it
// after Lost.
func (w *Waiter) Refused(t quorum.Tally) { w.d.refused(t, time.Now()) }

// Wait blocks until it is time to claim, healthChanged is closed, claimWanted is signaled, or ctx
// ends. A signal on pauseEnded brings the time to claim forward.
func (w *Waiter) Wait(ctx context.Context, healthChanged, claimWanted, pauseEnded <-chan struct{}) {
	var resumed time.Time // when to claim because a pause has ended; zero: none has
	for {
		now := time.Now()
		at := w.d.next(now)
		if !resumed.IsZero() {
			at = earlier(at, resumed)
		}
		if !at.After(now) {
			return
		}
		w.timer.Reset(at.Sub(now))
		select {
		case <-ctx.Done():
			return
		case <-healthChanged:
			return
		case <-claimWanted:
			return
		case <-pauseEnded:
			resumed = time.Now().Add(w.d.spreadOfAll())
		case s := <-w.signals:
			w.Receive(s)
		case <-w.timer.C:
		}
	}
}

// Receive takes a signal into account when Wait decides when to claim.
func (w *Waiter) Receive(s pubsub.Signal) {
	majority := w.d.majority()
	switch {
	case s.Kind == pubsub.Subscribed && s.Channel == w.c.Keys.Wake:
		w.listen(&w.joined, s.Node, majority)
	case s.Kind == pubsub.Failed && rediserr.RefusedSubscribe(s.Err):
		w.listen(&w.refusals, s.Node, w.d.Nodes-majority+1) // with so many refusals no majority is left to wait for
	}
	if s.Kind == pubsub.Failed {
		w.c.NotSubscribed(s.Err)
	}
	w.d.received(s, w.c.Keys, w.c.ParseEvent)
}

// listen adds a node to nodes, and calls Listening when there are enough.
func (w *Waiter) listen(nodes *map[int]bool, node, enough int) {
	if w.c.Listening == nil || (*nodes)[node] {
		return
	}
	if *nodes == nil {
		*nodes = map[int]bool{}
	}
	(*nodes)[node] = true
	if len(*nodes) == enough {
		w.c.Listening()
	}
}
