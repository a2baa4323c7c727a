// Package standby decides when a follower claims again: when the lease that it last saw
// ends, or earlier when a release is published.
//
// What decides passes these, from top to bottom:
//
//	Lost            the answers to the last claim: when the lease ends, who goes first (on the goroutine that claims)
//	wakes           a message, on the subscription's goroutines: does it matter to this follower?
//	take            the messages that do, again on the goroutine that claims
//	decision        when to claim: pure, apart from random delays (decision.go)
//	Wait            blocks until then
package standby

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Subscriber is the part of pubsub.Bus that a Waiter needs.
type Subscriber interface {
	Subscribe(channel string, most int, filter func(pubsub.Signal) bool) *pubsub.Subscription
	Subscribers(channel string) int
	Check(every, within time.Duration, claimed ...protocol.Answer)
}

// Config configures a Waiter.
type Config struct {
	Settings

	Bus  Subscriber
	Keys *protocol.Keys
	// NotSubscribed is called with the reason when the subscription to a node fails, on several
	// goroutines. Without messages, only the time decides when to claim.
	NotSubscribed func(error)
	// Parted is called on the goroutine that campaigns: a subscription's connection to a node was lost; or not, the node
	// reports the end of the leader's term.
	Parted func(node int, lost bool)
	// OtherVersion is called with the version of a message whose sender has another protocol.
	OtherVersion func(int)
}

// Waiter waits for the time to claim. It belongs to the goroutine that campaigns; only Listens is safe for
// concurrent use. A message is a hint: only a claim shows the state of the locks.
type Waiter struct {
	c         Config
	d         decision
	timer     *time.Timer
	events    *pubsub.Subscription
	followers atomic.Int64 // about how many there are
}

// maxMessages is how many messages wait for the campaigning goroutine, which blocks during a claim. The nodes
// send fewer for a few terms; more are a flood.
const maxMessages = 32

// TestEvery is how many leases pass between two tests of the subscriptions of a process that neither leads nor
// campaigns: with its reads, one per lease, these are at most 4/3 requests per lease. The claims of a follower,
// one per lease, test the subscriptions without a request; a leader's are tested once per lease.
const TestEvery = 4

// New subscribes to releases, until Close.
func New(c Config) *Waiter {
	w := &Waiter{c: c, d: decision{Settings: c.Settings, seed: maphash.MakeSeed()}, timer: time.NewTimer(0)}
	w.timer.Stop()
	w.events = c.Bus.Subscribe(c.Keys.Events, maxMessages, w.wakes)
	return w
}

// wakes reports whether a signal wakes the campaigning goroutine. It runs on the subscription's goroutines.
// Only what matters to this follower does: a thousand of them that wake for each message would delay the
// one that claims.
func (w *Waiter) wakes(s pubsub.Signal) bool {
	switch s.Kind {
	case pubsub.Failed: // the end of the lease still causes a claim
		w.c.NotSubscribed(s.Err)
		return quorum.Lost(s.Err)
	case pubsub.Subscribed:
		return true
	case pubsub.Message:
	}
	m := parse(s.Payload)
	if m.Version > 0 && m.Version != protocol.Version {
		w.c.OtherVersion(m.Version)
	}
	return m.Kind == protocol.KindReleased && (m.First == w.c.Incarnation || m.First == protocol.Reservation(w.c.Incarnation) ||
		acts(w.d.seed, m.Token, int(w.followers.Load())))
}

// parse parses a message; the zero Message: it is none. An invalid message changes nothing: anyone who
// publishes on the channel can at most make a candidate query Redis.
func parse(payload string) protocol.Message {
	m, _ := protocol.ParseMessage(payload)
	return m
}

// Close ends the subscription.
func (w *Waiter) Close() {
	w.timer.Stop()
	w.events.Close()
}

// Listens reports whether a release would be received at once: a majority of the nodes has confirmed the
// subscription, or so many refuse it that no majority can.
func (w *Waiter) Listens() bool { return w.events.Listens() }

// ForgetMessages drops all messages received so far: the claim that follows reads the state from
// Redis.
func (w *Waiter) ForgetMessages() {
	w.take()
	w.d.ended, w.d.claimAt = nil, time.Time{}
}

// Lost plans the next claim from the answers to a lost one. With refused this candidate could have won, but must not
// lead: it claims later.
func (w *Waiter) Lost(t quorum.Tally, refused bool) {
	all, now := w.count(t), time.Now()
	w.followers.Store(int64(all))
	if w.d.lost(t, all, now); refused {
		w.d.refused(t, now)
	}
	w.c.Bus.Check(3*w.c.Lease/2, w.c.CallTimeout, t.Answers...)
}

// count returns about how many candidates there are. The nodes count those of one process as one
// subscriber, because they share a connection: without this correction a thousand of them would each
// believe that they are few.
func (w *Waiter) count(t quorum.Tally) int {
	processes := 1
	for _, a := range t.Answers {
		processes = max(processes, a.Subscribers)
	}
	return processes * max(1, w.c.Bus.Subscribers(w.c.Keys.Ask))
}

// Wait blocks until it is time to claim, healthChanged is closed, claimWanted is signaled, or ctx
// ends. A signal on pauseEnded brings the time to claim forward.
func (w *Waiter) Wait(ctx context.Context, healthChanged, claimWanted, pauseEnded <-chan struct{}) {
	for {
		now := time.Now()
		at := w.d.next(now)
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
			w.d.claimWithin(w.d.spread())
		case <-w.events.Arrived():
			w.take()
		case <-w.timer.C:
		}
	}
}

func (w *Waiter) take() {
	for _, s := range w.events.Take() {
		switch {
		case s.Kind == pubsub.Failed:
			w.c.Parted(s.Node, true)
		case s.Kind == pubsub.Message:
			if w.d.termEnded(s.Node, parse(s.Payload)) {
				w.c.Parted(s.Node, false)
			}
		case w.d.holder != "": // what was published before is missed
			w.d.claimWithin(w.d.RetryEvery)
		}
	}
}
