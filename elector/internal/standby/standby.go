// Package standby decides when a follower claims again: when the lease that it last saw
// ends, or earlier when a release is published. The decision is pure (decision.go); the
// Waiter passes answers, messages and the time to it, and waits.
package standby

import (
	"context"
	"hash/maphash"
	"sync/atomic"
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
	// NotSubscribed is called with the reason when the subscription to a node fails. Without
	// messages, only the time decides when to claim.
	NotSubscribed func(error)
	// Listening is called when a majority of the nodes has confirmed the subscription, or when so
	// many refuse it that no majority can. It may be nil.
	Listening func()
}

// Waiter waits for the time to claim. It belongs to the goroutine that campaigns, to which a channel
// brings the messages. A message is a hint: only a claim shows the state of the locks.
type Waiter struct {
	c           Config
	d           decision
	timer       *time.Timer
	signals     chan pubsub.Signal
	unsubscribe func()
	elected     atomic.Uint64 // the highest token of an announced leader since the last claim
	followers   atomic.Int64  // about how many there are
	joined      map[int]bool  // nodes that have confirmed the subscription
	refusals    map[int]bool  // nodes that refuse it
}

// maxSignals is how many signals wait for the campaigning goroutine, which blocks during a claim. More
// messages than the nodes send for a few terms are a flood: those that find no room are lost, like
// messages that were never delivered.
const maxSignals = 64

// New subscribes to elections and releases, until Close.
func New(c Config) *Waiter {
	w := &Waiter{c: c, d: decision{Settings: c.Settings, seed: maphash.MakeSeed()}, timer: time.NewTimer(0), signals: make(chan pubsub.Signal, maxSignals)}
	w.timer.Stop()
	w.unsubscribe = c.Bus.Subscribe(c.Keys.Events, w.put)
	return w
}

// put runs on the subscription's goroutine. Only what matters now wakes the campaigning goroutine:
// a thousand of them that wake for each message would delay the one that claims. Messages leave room
// for the changes of the subscription.
func (w *Waiter) put(s pubsub.Signal) {
	if s.Kind == pubsub.Message {
		m := pubsub.Parsed(s, parse)
		if m.Kind == protocol.KindElected {
			w.announced(m.Token)
		}
		if m.Kind != protocol.KindReleased || !w.concerned(m) || len(w.signals) >= maxSignals/2 {
			return
		}
	}
	select {
	case w.signals <- s:
	default:
	}
}

// parse parses a message; the zero Message: it is none.
func parse(payload string) protocol.Message {
	m, ok := protocol.ParseMessage(payload)
	if !ok {
		return protocol.Message{}
	}
	return m
}

// announced keeps the highest token of an announced leader. Wait reads it before it lets the candidate
// claim.
func (w *Waiter) announced(token uint64) {
	for old := w.elected.Load(); token > old && !w.elected.CompareAndSwap(old, token); old = w.elected.Load() {
	}
}

// concerned reports whether this follower claims at the end of a term.
func (w *Waiter) concerned(m protocol.Message) bool {
	return m.First == w.c.Incarnation || m.First == protocol.Reservation(w.c.Incarnation) ||
		acts(w.d.seed, m.Token, int(w.followers.Load()))
}

// Close ends the subscription.
func (w *Waiter) Close() {
	w.timer.Stop()
	w.unsubscribe()
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
		w.d.news = news{}
		w.elected.Store(0)
		return
	}
}

// Lost plans the next claim from the answers to a lost one.
func (w *Waiter) Lost(t quorum.Tally) {
	all := w.count(t)
	w.followers.Store(int64(all))
	w.d.lost(t, all, time.Now())
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

// Refused postpones the next claim of a candidate that could win but must not lead. Call it
// after Lost.
func (w *Waiter) Refused(t quorum.Tally) { w.d.refused(t, time.Now()) }

// Wait blocks until it is time to claim, healthChanged is closed, claimWanted is signaled, or ctx
// ends. A signal on pauseEnded brings the time to claim forward.
func (w *Waiter) Wait(ctx context.Context, healthChanged, claimWanted, pauseEnded <-chan struct{}) {
	var resumed time.Time // when to claim because a pause has ended; zero: none has
	for {
		now := time.Now()
		w.d.news.elected = w.elected.Load()
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
			resumed = time.Now().Add(upTo(w.d.spread()))
		case s := <-w.signals:
			w.Receive(s)
		case <-w.timer.C:
		}
	}
}

// Receive takes a signal into account when Wait decides when to claim. An invalid message changes
// nothing: anyone who publishes on the channel can at most make this candidate query Redis.
func (w *Waiter) Receive(s pubsub.Signal) {
	switch s.Kind {
	case pubsub.Subscribed:
		w.d.news.resubscribed = true
		w.listen(&w.joined, s.Node, w.d.majority())
	case pubsub.Failed: // the end of the lease still causes a claim
		w.c.NotSubscribed(s.Err)
		if rediserr.RefusedSubscribe(s.Err) {
			w.listen(&w.refusals, s.Node, w.d.Nodes-w.d.majority()+1) // with so many refusals no majority is left to wait for
		}
	case pubsub.Message:
		w.d.termEnded(s.Node, pubsub.Parsed(s, parse))
	}
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
