// Package standby decides when a follower claims again: when the lease that it saw would
// end, or earlier when a release is published. The decision is pure (decision.go); the
// Waiter feeds it with answers, messages and the time, and waits.
package standby

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Subscriber is what a Waiter needs of pubsub.Bus.
type Subscriber interface {
	Subscribe(channel string, notify func(pubsub.Signal)) (unsubscribe func())
	Subscribers(channel string) int
}

// Config is what a Waiter is made of.
type Config struct {
	Settings

	Bus  Subscriber
	Keys *quorum.Keys
	// ParseEvent reads a message of the events channel as if it were one of the wake
	// channel; false when it is none of this election, or reports neither an election
	// nor the end of a term.
	ParseEvent func(payload string) (quorum.WakeMessage, bool)
	// NotSubscribed is called with the reason when a node sends no messages. Waiting then
	// goes by time alone.
	NotSubscribed func(error)
	// Listening is called when a majority of the nodes sends what a release publishes first, or when so many refuse
	// the subscription that none will; nil: nobody wants to know. It must not block.
	Listening func()
}

// Waiter waits for the time to claim. Its methods belong to the goroutine that campaigns;
// messages arrive on others. A message is a hint: only a claim shows what is true.
type Waiter struct {
	c          Config
	stopEvents func()
	stopWake   func()        // nil while not in the front row
	arrived    chan struct{} // a message has changed the decision: it is time, or Wait has to look

	mu       sync.Mutex // of all below
	d        decision
	timer    *time.Timer // goes off when due; nil unless Wait waits
	due      time.Time
	joined   map[int]bool // the nodes that send what is published to the front row
	refusals map[int]bool // the nodes that refuse a subscription
}

// New starts to listen for elections and releases.
func New(c Config) *Waiter {
	w := &Waiter{c: c, arrived: make(chan struct{}, 1), d: decision{Settings: c.Settings}}
	w.stopEvents = c.Bus.Subscribe(c.Keys.Events, w.receive)
	return w
}

// Close ends the subscriptions.
func (w *Waiter) Close() {
	w.stopEvents()
	w.LeaveFrontRow()
}

// LeaveFrontRow makes room for a candidate that can claim when a leader releases.
func (w *Waiter) LeaveFrontRow() {
	if w.stopWake == nil {
		return
	}
	w.stopWake()
	w.stopWake = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.inRow, w.joined = false, nil
}

// Claiming forgets what was received: the claim asks Redis itself.
func (w *Waiter) Claiming() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.notices = notices{}
}

// Lost plans the next claim from what a lost one showed, and joins or leaves the front row.
func (w *Waiter) Lost(t quorum.Tally) {
	waiters, listening := w.c.Bus.Subscribers(w.c.Keys.Wake), w.c.Bus.Subscribers(w.c.Keys.Events)
	w.mu.Lock()
	w.d.here = neighbours{waiters: waiters, listening: listening}
	w.d.lost(t, time.Now())
	change := w.d.changeRow()
	w.d.inRow = w.d.inRow && change != leave || change == join
	if change == leave {
		w.joined = nil
	}
	w.mu.Unlock()
	switch change {
	case join:
		w.stopWake = w.c.Bus.Subscribe(w.c.Keys.Wake, w.receive)
	case leave:
		w.stopWake()
		w.stopWake = nil
	case stay:
	}
}

// Refused puts off the claim of a candidate that could win and must not lead. Call it
// after Lost.
func (w *Waiter) Refused(t quorum.Tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.refused(t, time.Now())
}

// Wait blocks until it is time to claim, healthChanged is closed, cordoned is signaled, or ctx
// ends. After pauseEnded it may be time soon.
func (w *Waiter) Wait(ctx context.Context, healthChanged, cordoned, pauseEnded <-chan struct{}) {
	timer := w.begin()
	defer w.end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-healthChanged:
			return
		case <-cordoned:
			return
		case <-timer.C:
			return
		case <-pauseEnded:
			if w.afterPause() {
				return
			}
		case <-w.arrived:
			if w.afterMessage() {
				return
			}
		}
	}
}

// begin sets the timer for the time to claim if nothing is received. As those below, it is not a
// part of Wait: ten thousand followers wait there, each on a stack of its own.
func (w *Waiter) begin() *time.Timer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = w.d.at
	w.timer = time.NewTimer(time.Until(w.due))
	return w.timer
}

func (w *Waiter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.timer = nil
}

// afterPause plans the claim after the end of a pause; true: now.
func (w *Waiter) afterPause() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	return w.plan(now, earlier(w.due, now.Add(w.d.spreadOfAll())))
}

// afterMessage plans the claim after what was received; true: now.
func (w *Waiter) afterMessage() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	return w.plan(now, w.d.next(now))
}

// plan sets the timer; true: it is time. With mu held, while Wait waits.
func (w *Waiter) plan(now, at time.Time) bool {
	if !at.After(now) {
		return true
	}
	if !at.Equal(w.due) {
		w.due = at
		w.timer.Reset(at.Sub(now))
	}
	return false
}

// receive runs on the subscription's goroutine.
func (w *Waiter) receive(s pubsub.Signal) {
	if s.Kind == pubsub.Failed {
		w.c.NotSubscribed(s.Err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	majority := w.d.majority()
	switch {
	case s.Kind == pubsub.Subscribed && s.Channel == w.c.Keys.Wake:
		w.listen(&w.joined, s.Node, majority)
	case s.Kind == pubsub.Failed && quorum.RefusedSubscribe(s.Err):
		w.listen(&w.refusals, s.Node, w.d.Nodes-majority+1) // no majority is left: nothing is to be waited for
	}
	if !w.d.received(s, w.c.Keys, w.c.ParseEvent) {
		return
	}
	// Of a thousand followers nearly all have another one go first: they need not wake up for that.
	if now := time.Now(); w.timer != nil && !w.plan(now, w.d.next(now)) {
		return
	}
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// listen adds a node to some, and reports when they are enough. With mu held.
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
