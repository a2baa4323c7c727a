package standby

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// bus is a Subscriber in the hand of a test. Of one goroutine.
type bus map[string]func(pubsub.Signal)

func (b bus) Subscribe(channel string, notify func(pubsub.Signal)) (unsubscribe func()) {
	b[channel] = notify
	return func() { delete(b, channel) }
}

func (b bus) Subscribers(channel string) int {
	if b[channel] == nil {
		return 0
	}
	return 1
}

func (b bus) publish(channel, payload string, nodes ...int) {
	for _, n := range nodes {
		b[channel](pubsub.Signal{Kind: pubsub.Message, Node: n, Channel: channel, Payload: payload})
	}
}

// waiting is a Waiter of three nodes that has lost a claim to a leader which holds its
// locks for 8 s more; so many wait with it in the front row.
func waiting(t *testing.T, frontRow int) (*Waiter, bus) {
	t.Helper()
	b := bus{}
	w := New(Config{
		Settings: follower(3).Settings, Bus: b, Keys: &keys, ParseEvent: parseEvent, NotSubscribed: func(error) {},
	})
	w.ForgetMessages()
	w.Lost(leads(8*time.Second, frontRow))
	return w, b
}

// leads is what a claim shows while the leader of waiting leads: a lease with so much left.
func leads(left time.Duration, frontRow int) quorum.Tally {
	a := holding("a", "7", left)
	a.Waiters, a.Subscribers = frontRow, 20
	return quorum.Tally{Answers: []protocol.Answer{a, a, a}, RTT: time.Millisecond}
}

// wait is how long the Waiter waits, and what happens meanwhile.
func wait(ctx context.Context, w *Waiter, health, pauseEnded <-chan struct{}) time.Duration {
	began := time.Now()
	w.Wait(ctx, health, nil, pauseEnded)
	return time.Since(began)
}

func TestWaiterIsWoken(t *testing.T) {
	release := protocol.WakeMessage{Token: 7}.String()
	for name, c := range map[string]struct {
		after func(b bus, cancel, health, pause func())
		most  time.Duration // after that second
		sleep bool          // to the lease's end
	}{
		"by a release":               {after: func(b bus, _, _, _ func()) { b.publish(keys.Wake, release, 0, 2) }, most: 20 * time.Millisecond},
		"by a release, as an event":  {after: func(b bus, _, _, _ func()) { b.publish(keys.Events, event(release), 0, 1) }, most: 20 * time.Millisecond},
		"by its context":             {after: func(_ bus, cancel, _, _ func()) { cancel() }},
		"by a change of health":      {after: func(_ bus, _, health, _ func()) { health() }},
		"by the end of a pause":      {after: func(_ bus, _, _, pause func()) { pause() }, most: 20 * perFollower},
		"not by one node's message":  {after: func(b bus, _, _, _ func()) { b.publish(keys.Wake, release, 1, 1) }, sleep: true},
		"not by an old term's end":   {after: func(b bus, _, _, _ func()) { b.publish(keys.Wake, protocol.WakeMessage{Token: 6}.String(), 0, 1, 2) }, sleep: true},
		"not by a message of others": {after: func(b bus, _, _, _ func()) { b.publish(keys.Events, release, 0, 1, 2) }, sleep: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, b := waiting(t, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				health, pause := make(chan struct{}), make(chan struct{}, 1)
				time.AfterFunc(time.Second, func() { c.after(b, cancel, func() { close(health) }, func() { pause <- struct{}{} }) })
				d := wait(ctx, w, health, pause) - time.Second
				switch {
				case c.sleep && (d < 7*time.Second || d > 7*time.Second+10*time.Millisecond):
					t.Errorf("woke %v after", d)
				case !c.sleep && d > c.most:
					t.Errorf("woke %v after, want at most %v", d, c.most)
				}
			})
		})
	}
}

// A release, and the end of a pause, that come while a claim is under way count after it: it may have been sent before.
func TestNewsWhileAClaimIsUnderWay(t *testing.T) {
	for name, news := range map[string]func(b bus, pause chan struct{}){
		"a release": func(b bus, _ chan struct{}) {
			b.publish(keys.Wake, protocol.WakeMessage{Token: 7, First: "me"}.String(), 0, 1, 2)
		},
		"the end of a pause": func(_ bus, pause chan struct{}) { pause <- struct{}{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, b := waiting(t, 1)
				pause := make(chan struct{}, 1)
				w.ForgetMessages() // the claim begins
				news(b, pause)
				w.Lost(leads(10*time.Second, 1))
				if d := wait(t.Context(), w, nil, pause); d > time.Second {
					t.Errorf("claims again after %v", d)
				}
			})
		})
	}
}

// A flood of messages takes no room from the confirmation of a subscription.
func TestFloodDoesNotHideASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := waiting(t, 1)
		for range 10 * maxSignals {
			b.publish(keys.Wake, "released 6 ", 0)
		}
		b[keys.Events](pubsub.Signal{Kind: pubsub.Subscribed, Channel: keys.Events})
		if d := wait(t.Context(), w, nil, nil); d > time.Second {
			t.Errorf("claims after %v, although messages may have been missed", d)
		}
	})
}

// Listening is reported once a majority of the nodes sends releases, or none can any more.
func TestWaiterListens(t *testing.T) {
	refusal := errors.New("NOPERM this user has no permissions to access one of the channels used as arguments")
	for name, c := range map[string]struct {
		joined, refuse []int
		err            error
		want           int
	}{
		"a majority joined":            {joined: []int{0, 2}, want: 1},
		"one joined":                   {joined: []int{1, 1}},
		"a majority refused":           {refuse: []int{0, 1}, err: refusal, want: 1},
		"one refused, and again":       {refuse: []int{1, 1}, err: refusal},
		"all refused":                  {refuse: []int{0, 1, 2}, err: refusal, want: 1},
		"a majority out of reach":      {refuse: []int{0, 1, 2}, err: errors.New("EOF")},
		"a majority joined, one not":   {joined: []int{0, 2}, refuse: []int{1}, err: refusal, want: 1},
		"one joined, and one refused":  {joined: []int{0}, refuse: []int{1}, err: refusal},
		"one joined, the others can't": {joined: []int{0}, refuse: []int{1, 2}, err: refusal, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, b := 0, bus{}
			w := New(Config{
				Settings: follower(3).Settings, Bus: b, Keys: &keys, ParseEvent: parseEvent, NotSubscribed: func(error) {},
				Listening: func() { got++ },
			})
			defer w.Close()
			for _, n := range c.joined {
				b[keys.Events](pubsub.Signal{Kind: pubsub.Subscribed, Node: n, Channel: keys.Wake})
			}
			for _, n := range c.refuse {
				b[keys.Events](pubsub.Signal{Kind: pubsub.Failed, Node: n, Channel: keys.Events, Err: c.err})
			}
			if w.ForgetMessages(); got != c.want {
				t.Errorf("reported %d times, want %d", got, c.want)
			}
		})
	}
}
