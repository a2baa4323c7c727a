// Package standby decides when a follower claims again: when the lease that it saw would
// end, or earlier when a release is published. The decision is pure (decision.go); the
// Waiter feeds it with answers, messages and the time, and waits.
package standby

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Subscriber is what a Waiter needs of pubsub.Bus.
type Subscriber interface {
	Subscribe(channel string, notify func(pubsub.Signal)) (unsubscribe func())
	Subscribers(channel string) int
}

// Alarm goes off when a claim is due: it calls Waiter.Due, on any goroutine.
type Alarm interface {
	// Set has it go off in that time, and not as it was set before. With slack it may be a moment later, together with those of
	// other elections.
	Set(in, slack time.Duration)
	Stop()
}

// Config is what a Waiter is made of.
type Config struct {
	Settings

	Bus   Subscriber
	Alarm Alarm
	Keys  *protocol.Keys
	// ParseEvent reads a message of the events channel as if it were one of the wake
	// channel; false when it is none of this election, or reports neither an election
	// nor the end of a term.
	ParseEvent func(payload string) (protocol.WakeMessage, bool)
	// NotSubscribed is called with the reason when a node sends no messages. Waiting then
	// goes by time alone.
	NotSubscribed func(error)
	// Listening is called when a majority of the nodes sends what a release publishes first, or when so many refuse
	// the subscription that none will; nil: nobody wants to know. It must not block.
	Listening func()
}

// Waiter waits for the time to claim. Its methods belong to the goroutine that campaigns, but for Due, Held, Shown and Wake;
// messages arrive on others. A message is a hint: only a claim shows what is true.
type Waiter struct {
	c          Config
	stopEvents func()
	stopWake   func()        // nil while not in the front row
	arrived    chan struct{} // it is time, or Wait has to look

	mu       sync.Mutex // of all below
	d        decision
	waiting  bool          // in Wait
	claimDue bool          // a claim is under way that Wait has not left for
	votes    *quorum.Tally // of such a claim, for the goroutine that campaigns; nil: none
	woken    bool          // it has to claim
	resumed  bool          // a pause has ended meanwhile
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

// ForgetMessages forgets what was received: the claim asks Redis itself.
func (w *Waiter) ForgetMessages() {
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
// ends. After pauseEnded it may be time soon. It returns the votes of a claim that was made meanwhile, and has shown more than
// that the leader leads on; nil: there is none. A claim that is under way it waits for.
func (w *Waiter) Wait(ctx context.Context, healthChanged, cordoned, pauseEnded <-chan struct{}) *quorum.Tally {
	w.begin()
	for {
		select {
		case <-ctx.Done():
			return w.end()
		case <-healthChanged:
			return w.end()
		case <-cordoned:
			return w.end()
		case <-pauseEnded:
			w.afterPause()
		case <-w.arrived:
			if w.over() {
				return w.end()
			}
		}
	}
}

// begin sets the alarm for the time to claim if nothing is received. As those below, it is not a
// part of Wait: ten thousand followers wait there, each on a stack of its own.
func (w *Waiter) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.woken, w.votes = true, false, nil
	w.set(time.Now(), w.d.at)
	if w.resumed {
		w.resume(time.Now())
	}
}

// end is that of Wait, when no claim is under way.
func (w *Waiter) end() *quorum.Tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = false
	w.c.Alarm.Stop()
	for w.claimDue {
		w.mu.Unlock()
		<-w.arrived
		w.mu.Lock()
	}
	return w.votes
}

// over reports whether Wait has to return. What was received while it did not wait counts from now on.
func (w *Waiter) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.woken && !w.claimDue {
		now := time.Now()
		w.plan(now, w.d.next(now))
	}
	return w.woken
}

// afterPause plans the claim after the end of a pause.
func (w *Waiter) afterPause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claimDue {
		w.resumed = true
		return
	}
	w.resume(time.Now())
}

func (w *Waiter) resume(now time.Time) {
	w.resumed = false
	w.plan(now, earlier(w.due, now.Add(w.d.spreadOfAll())))
}

// plan sets the alarm, or has Wait return if it is time. The caller holds mu, while it waits.
func (w *Waiter) plan(now, at time.Time) {
	switch {
	case !at.After(now):
		w.wake()
	case !at.Equal(w.due):
		w.set(now, at)
	}
}

// set sets the alarm. The caller holds mu.
func (w *Waiter) set(now, at time.Time) {
	slack := time.Duration(0)
	if at.Equal(w.d.at) && w.d.backoff == 0 {
		slack = 2 * claimSpacing // a lease's end, which the leader nearly always puts off in time
	}
	w.due = at
	w.c.Alarm.Set(at.Sub(now), slack)
}

// wake has Wait return. The caller holds mu.
func (w *Waiter) wake() {
	w.woken = true
	w.signal()
}

func (w *Waiter) signal() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
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
	case s.Kind == pubsub.Failed && rediserr.RefusedSubscribe(s.Err):
		w.listen(&w.refusals, s.Node, w.d.Nodes-majority+1) // no majority is left: nothing is to be waited for
	}
	if !w.d.received(s, w.c.Keys, w.c.ParseEvent) {
		return
	}
	switch now := time.Now(); {
	case w.claimDue: // Held plans what follows from it
	case w.waiting: // of a thousand followers nearly all have another one go first: they need not wake up for that
		w.plan(now, w.d.next(now))
	default:
		w.signal()
	}
}

// listen adds a node to some, and reports when they are enough. The caller holds mu.
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
