// Package standby decides when a follower claims again: when the lease that it last saw
// ends, or earlier when a release is published. The decision is pure (decision.go); the
// Waiter passes answers, messages and the time to it, and waits.
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

// Subscriber is the part of pubsub.Bus that a Waiter needs.
type Subscriber interface {
	Subscribe(channel string, notify func(pubsub.Signal)) (unsubscribe func())
	Subscribers(channel string) int
}

// Alarm goes off when a claim is due: it calls Waiter.Due, on any goroutine.
type Alarm interface {
	// Set makes the alarm go off after in, and replaces any earlier setting. It may go off up to
	// slack later, together with the alarms of other elections.
	Set(in, slack time.Duration)
	Stop()
}

// Config configures a Waiter.
type Config struct {
	Settings

	Bus   Subscriber
	Alarm Alarm
	Keys  *protocol.Keys
	// ParseEvent converts a message of the events channel to one of the wake channel. It
	// returns false for a message of another election, and for one that reports neither an
	// election nor the end of a term.
	ParseEvent func(payload string) (protocol.WakeMessage, bool)
	// NotSubscribed is called with the reason when the subscription to a node fails. Without
	// messages, only the time decides when to claim.
	NotSubscribed func(error)
	// Listening is called when a majority of the nodes has confirmed the subscription to the wake
	// channel, or when so many refuse a subscription that no majority can. It must not block, and
	// may be nil.
	Listening func()
}

// Waiter waits for the time to claim. Only the goroutine that campaigns calls its methods, except
// for Due, ClaimUnchanged, ClaimChanged and Wake; messages arrive on other goroutines. A message is a hint: only a
// claim shows the state of the locks.
type Waiter struct {
	c          Config
	stopEvents func()
	stopWake   func()        // nil while not in the front row
	arrived    chan struct{} // signaled when Wait has to check woken and the notices

	mu       sync.Mutex // of all below
	d        decision
	waiting  bool          // Wait is running
	claimDue bool          // a claim that Due has permitted is under way, while Wait continues to wait
	votes    *quorum.Tally // what that claim has shown, for Wait to return; nil: nothing to return
	woken    bool          // Wait has to return
	resumed  bool          // a pause ended while that claim was under way
	due      time.Time     // what the alarm is set to
	joined   map[int]bool  // nodes that have confirmed the subscription to the wake channel
	refusals map[int]bool  // nodes that refuse a subscription
}

// New subscribes to elections and releases, until Close.
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

// LeaveFrontRow makes room for another candidate, which can claim when a leader releases.
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

// ForgetMessages drops all messages received so far: the claim that follows reads the state from
// Redis.
func (w *Waiter) ForgetMessages() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.notices = notices{}
}

// Lost plans the next claim from the answers to a lost one, and joins or leaves the front row.
func (w *Waiter) Lost(t quorum.Tally) {
	waiters, listening := w.c.Bus.Subscribers(w.c.Keys.Wake), w.c.Bus.Subscribers(w.c.Keys.Events)
	w.mu.Lock()
	w.d.localFollowers = neighbours{waiters: waiters, listening: listening}
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

// Refused postpones the next claim of a candidate that could win but must not lead. Call it
// after Lost.
func (w *Waiter) Refused(t quorum.Tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.refused(t, time.Now())
}

// Wait blocks until it is time to claim, healthChanged is closed, claimWanted is signaled, or ctx
// ends. A signal on pauseEnded brings the time to claim forward. If a claim was made meanwhile (Due)
// and showed more than that the leader remains leader, Wait returns its votes; otherwise nil. Wait
// does not return while such a claim is under way.
func (w *Waiter) Wait(ctx context.Context, healthChanged, claimWanted, pauseEnded <-chan struct{}) *quorum.Tally {
	w.begin()
	for {
		select {
		case <-ctx.Done():
			return w.end()
		case <-healthChanged:
			return w.end()
		case <-claimWanted:
			return w.end()
		case <-pauseEnded:
			w.afterPause()
		case <-w.arrived:
			if w.shouldReturn() {
				return w.end()
			}
		}
	}
}

// begin sets the alarm to the time to claim if no message arrives. Like the functions below, it is
// separate from Wait to keep the stack of Wait small: ten thousand followers may wait there, each on
// a stack of its own.
func (w *Waiter) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.woken, w.votes = true, false, nil
	w.replan(time.Now())
}

// replan plans the claim after the last one, by its answers and by what was reported meanwhile: a
// release that is not considered here costs a lease without a leader. The caller holds mu.
func (w *Waiter) replan(now time.Time) {
	w.due = time.Time{}
	w.plan(now, w.d.next(now))
	if w.resumed {
		w.resume(now)
	}
}

// end stops the alarm, waits for a claim that is under way, and returns what Wait returns.
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

// shouldReturn reports whether Wait has to return. It also takes messages into account that arrived while
// Wait was not running.
func (w *Waiter) shouldReturn() bool {
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

// plan sets the alarm, or makes Wait return if it is time to claim. The caller holds mu, and Wait
// is running.
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
		slack = 2 * claimSpacing // the end of a lease, which the leader nearly always renews in time
	}
	w.due = at
	w.c.Alarm.Set(at.Sub(now), slack)
}

// wake makes Wait return. The caller holds mu.
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
		w.listen(&w.refusals, s.Node, w.d.Nodes-majority+1) // with so many refusals no majority is left to wait for
	}
	if !w.d.received(s, w.c.Keys, w.c.ParseEvent) {
		return
	}
	switch now := time.Now(); {
	case w.claimDue: // ClaimUnchanged takes the message into account
	case w.waiting: // nearly all of a thousand followers let another one claim first: they need not wake up for that
		w.plan(now, w.d.next(now))
	default:
		w.signal()
	}
}

// listen adds a node to nodes, and calls Listening when there are enough. The caller holds mu.
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
