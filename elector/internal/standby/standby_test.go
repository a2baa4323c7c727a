package standby

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// bus is a Subscriber in the hand of a test. Of one goroutine.
type bus map[string]*pubsub.Subscription

func (b bus) Subscribe(channel string, most int, filter func(pubsub.Signal) bool) *pubsub.Subscription {
	b[channel] = pubsub.NewSubscription(3, most, filter)
	return b[channel]
}

func (b bus) Subscribers(channel string) int {
	if b[channel] == nil {
		return 0
	}
	return 1
}

func (bus) Check(_, _ time.Duration, _ ...protocol.Answer) {}

func (b bus) publish(channel, payload string, nodes ...int) {
	for _, n := range nodes {
		b[channel].Receive(pubsub.Signal{Kind: pubsub.Message, Node: n, Payload: payload})
	}
}

// released is the message of the end of a term.
func released(token uint64, first string) string {
	return protocol.Message{Kind: protocol.KindReleased, Token: token, First: first}.Head() + "{}"
}

// waiting is a Waiter of three nodes that has lost a claim to a leader which holds its
// locks for 8 s more, and has so many candidates.
func waiting(t *testing.T, candidates int) (*Waiter, bus) {
	t.Helper()
	b := bus{}
	w := New(Config{
		Settings: follower(3).Settings, Bus: b, Keys: &keys, NotSubscribed: func(error) {}, Parted: func(int, bool) {}, OtherVersion: func(int) {},
	})
	w.ForgetMessages()
	w.Lost(leads(8*time.Second, candidates), false)
	return w, b
}

// leads is what a claim shows while the leader of waiting leads: a lease with so much left.
func leads(left time.Duration, candidates int) quorum.Tally {
	a := holding("a", "7", left)
	a.Subscribers = candidates
	return quorum.Tally{Answers: []protocol.Answer{a, a, a}, RTT: time.Millisecond}
}

// wait is how long the Waiter waits, and what happens meanwhile.
func wait(ctx context.Context, w *Waiter, health, pauseEnded <-chan struct{}) time.Duration {
	began := time.Now()
	w.Wait(ctx, health, nil, pauseEnded)
	return time.Since(began)
}

func TestWaiterIsWoken(t *testing.T) {
	for name, c := range map[string]struct {
		after func(b bus, cancel, health, pause func())
		most  time.Duration // after that second
		sleep bool          // to the lease's end
	}{
		"by a release":              {after: func(b bus, _, _, _ func()) { b.publish(keys.Events, released(7, ""), 0, 2) }, most: 20 * time.Millisecond},
		"by its context":            {after: func(_ bus, cancel, _, _ func()) { cancel() }},
		"by a change of health":     {after: func(_ bus, _, health, _ func()) { health() }},
		"by the end of a pause":     {after: func(_ bus, _, _, pause func()) { pause() }, most: 20 * perFollower},
		"not by one node's message": {after: func(b bus, _, _, _ func()) { b.publish(keys.Events, released(7, ""), 1, 1) }, sleep: true},
		"not by an old term's end":  {after: func(b bus, _, _, _ func()) { b.publish(keys.Events, released(6, ""), 0, 1, 2) }, sleep: true},
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
				case c.sleep && (d < 7*time.Second || d > 7*time.Second+20*time.Millisecond):
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
			b.publish(keys.Events, released(7, "me"), 0, 1, 2)
		},
		"the end of a pause": func(_ bus, pause chan struct{}) { pause <- struct{}{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, b := waiting(t, 1)
				pause := make(chan struct{}, 1)
				w.ForgetMessages() // the claim begins
				news(b, pause)
				w.Lost(leads(10*time.Second, 1), false)
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
		for range 10 * maxMessages {
			b.publish(keys.Events, released(6, ""), 0)
		}
		b[keys.Events].Receive(pubsub.Signal{Kind: pubsub.Subscribed})
		if d := wait(t.Context(), w, nil, nil); d > time.Second {
			t.Errorf("claims after %v, although messages may have been missed", d)
		}
	})
}

// A subscription's connection that was lost counts for the next claim, also if nobody waits; the end of the term, which
// the node reports later, ends that. A refusal, and silence, lose nothing.
func TestLostConnectionsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := waiting(t, 1)
		parted := map[int]bool{}
		w.c.Parted = func(node int, lost bool) { parted[node] = lost }
		for node, err := range []error{io.EOF, rediserr.Refusal("NOPERM no"), context.DeadlineExceeded} {
			b[keys.Events].Receive(pubsub.Signal{Kind: pubsub.Failed, Node: node, Err: err})
		}
		b.publish(keys.Events, released(6, ""), 0)
		if w.ForgetMessages(); len(parted) != 1 || !parted[0] {
			t.Errorf("%v", parted)
		}
		b.publish(keys.Events, released(7, ""), 0)
		if w.ForgetMessages(); parted[0] {
			t.Error("the leader has released its lock")
		}
	})
}

// Of a thousand followers nearly all stay asleep at the end of a term; the one that is named does not.
func TestManyStayAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []string{"", "me", protocol.Reservation("me")} {
			w, b := waiting(t, 1000)
			for acts(w.d.seed, 7, 1000) {
				w, b = waiting(t, 1000)
			}
			b.publish(keys.Events, released(7, first), 0, 1, 2)
			b.publish(keys.Events, protocol.Message{Kind: protocol.KindElected, Token: 8}.Head()+"{}", 0)
			if asleep := len(w.events.Take()) == 0; asleep != (first == "") {
				t.Errorf("%q is first: asleep %v", first, asleep)
			}
		}
	})
}

// A follower listens once a majority of the nodes sends releases, or none can any more.
func TestWaiterListens(t *testing.T) {
	refusal := errors.New("NOPERM this user has no permissions to access one of the channels used as arguments")
	for name, c := range map[string]struct {
		joined, refuse []int
		err            error
		want           bool
	}{
		"a majority joined":            {joined: []int{0, 2}, want: true},
		"one joined":                   {joined: []int{1, 1}},
		"a majority refused":           {refuse: []int{0, 1}, err: refusal, want: true},
		"one refused, and again":       {refuse: []int{1, 1}, err: refusal},
		"all refused":                  {refuse: []int{0, 1, 2}, err: refusal, want: true},
		"a majority out of reach":      {refuse: []int{0, 1, 2}, err: errors.New("EOF")},
		"a majority joined, one not":   {joined: []int{0, 2}, refuse: []int{1}, err: refusal, want: true},
		"one joined, and one refused":  {joined: []int{0}, refuse: []int{1}, err: refusal},
		"one joined, the others can't": {joined: []int{0}, refuse: []int{1, 2}, err: refusal, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := bus{}
			w := New(Config{Settings: follower(3).Settings, Bus: b, Keys: &keys, NotSubscribed: func(error) {}, OtherVersion: func(int) {}})
			defer w.Close()
			for _, n := range c.joined {
				b[keys.Events].Receive(pubsub.Signal{Kind: pubsub.Subscribed, Node: n})
			}
			for _, n := range c.refuse {
				b[keys.Events].Receive(pubsub.Signal{Kind: pubsub.Failed, Node: n, Err: c.err})
			}
			if got := w.Listens(); got != c.want {
				t.Errorf("listens: %v", got)
			}
		})
	}
}

// FuzzMessages has a follower receive messages of three nodes. It may be made to claim earlier, and
// nothing else.
func FuzzMessages(f *testing.F) {
	f.Add("1 released 5 ABC {", "1 elected 6  {", "1 released 5 ABC {}", "{")
	f.Add("1 released 9007199254740991 x x", "1 elected 18446744073709551615  x", "1 elected 9007199254740991  {}", "")
	f.Add("1 released -1 x x", "1 elected", "1 released 7 ! x", "1 released 7 !ABC ")
	f.Fuzz(func(t *testing.T, one, two, three, four string) {
		for _, followers := range []int{1, 1000} {
			now := time.Now()
			d := follower(3)
			d.holder, d.token, d.followers = "b/B/1", 5, followers
			d.at = now.Add(d.Lease)
			end := d.at
			for i, payload := range []string{one, two, three, four} {
				if m := parse(payload); m.Kind == protocol.KindReleased {
					d.termEnded(i%3, m)
				}
				if at := d.next(now); at.After(end) {
					t.Fatalf("%q puts the next claim off by %v", payload, at.Sub(end))
				}
			}
		}
	})
}
