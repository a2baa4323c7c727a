package elector

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// offline is a candidate of some nodes to which it has no connection, with a lease of
// 10 s.
func offline(t *testing.T, nodes int) *Elector {
	t.Helper()
	var clients []redis.UniversalClient
	for i := range nodes {
		cl := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", 7001+i)})
		t.Cleanup(func() { cl.Close() })
		clients = append(clients, cl)
	}
	q, err := NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	e, err := New(q, Config{Election: "orders", ID: "me"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// listening is a waiter that has claimed, and saw the term 7; it has no connection.
func listening(t *testing.T) *waiter {
	t.Helper()
	return &waiter{e: offline(t, 3), poke: make(chan struct{}, 1), token: 7}
}

// A message that says nothing new wakes nobody: else whoever repeats one drives the
// claims of all. One that says something new always does: else a release is slept through.
func TestNoticesWakeForWhatIsNew(t *testing.T) {
	type heard struct {
		node    int
		channel string
		payload string
		wakes   bool
	}
	keys := quorum.KeysOf(defaultPrefix, "orders")
	event := func(election string, k EventKind, token uint64, next string) string {
		return string(Event{Version: 1, Kind: k, Election: election, Candidate: "a", Token: token, Next: next}.encode())
	}
	for name, c := range map[string][]heard{
		"releases of one node": {
			{0, keys.Wake, "released 6 ", false}, // before what we saw
			{0, keys.Wake, "released 7 ", true},
			{0, keys.Wake, "released 7 ", false},
			{0, keys.Wake, "released 8 ", true},
			{0, keys.Wake, "released 7 b", true}, // one that was forged must not hide it
		},
		"the same of each node": {
			{0, keys.Wake, "released 7 ", true}, {1, keys.Wake, "released 7 ", true}, {2, keys.Wake, "released 7 ", true}, {2, keys.Wake, "released 7 ", false},
		},
		"on events": {
			{0, keys.Events, event("orders", EventReleased, 6, ""), false},
			{0, keys.Events, event("orders", EventReleased, 7, ""), true},
			{0, keys.Events, event("orders", EventReleased, 7, ""), false},
			{0, keys.Events, event("orders", EventReleased, 7, "b"), true},
			{0, keys.Events, event("other", EventReleased, 9, ""), false},
			{0, keys.Events, event("orders", EventStopping, 9, ""), false},
			{0, keys.Events, "released 9 ", false},
		},
		"wake knows more than events": {
			{0, keys.Wake, "released 7 b", true}, {0, keys.Events, event("orders", EventReleased, 7, ""), false}, {0, keys.Wake, "released 7 b", false},
		},
		"events first": {
			{0, keys.Events, event("orders", EventReleased, 7, ""), true}, {0, keys.Wake, "released 7 ", true}, // the front row counts those on wake
		},
		"elections": {
			{0, keys.Wake, "elected 7", false}, {0, keys.Wake, "elected 9", true}, {1, keys.Wake, "elected 9", false}, {1, keys.Wake, "elected 8", false},
			{0, keys.Events, event("orders", EventElected, 9, ""), false}, {0, keys.Events, event("orders", EventElected, 10, ""), true}, {0, keys.Wake, "elected 10", false},
			{0, keys.Events, event("other", EventElected, 11, ""), false}, {0, keys.Wake, "elected 11", true},
		},
		"garbage": {
			{0, keys.Wake, "", false}, {0, keys.Wake, "9", false}, {0, keys.Wake, "released", false}, {0, keys.Wake, "released x", false},
			{0, keys.Wake, "elected x", false}, {0, keys.Wake, "elected -1", false}, {0, keys.Wake, "elected 99999999999999999999", false},
			{0, keys.Wake, event("orders", EventReleased, 9, ""), false}, {0, keys.Wake, "7 b", false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := listening(t)
			for i, h := range c {
				w.receive(pubsub.Signal{Kind: pubsub.Message, Node: h.node, Channel: h.channel, Payload: h.payload})
				if woken := len(w.poke) > 0; woken != h.wakes {
					t.Errorf("%d: %q wakes: %v, want %v", i, h.payload, woken, h.wakes)
				}
				select {
				case <-w.poke:
				default:
				}
			}
		})
	}
}

// After a gap in the subscription to events something may have been missed, and only
// then; without a subscription the lease's end is waited for.
func TestNoticesOfTheSubscriptionItself(t *testing.T) {
	w := listening(t)
	for _, s := range []pubsub.Signal{
		{Kind: pubsub.Failed, Channel: w.e.keys.Events, Err: fmt.Errorf("gone")},
		{Kind: pubsub.Subscribed, Channel: w.e.keys.Wake},
	} {
		if w.receive(s); len(w.poke) > 0 || w.notices.resubscribed {
			t.Errorf("%+v wakes", s)
		}
	}
	if w.receive(pubsub.Signal{Kind: pubsub.Subscribed, Channel: w.e.keys.Events}); len(w.poke) == 0 || !w.notices.resubscribed {
		t.Error("a new subscription to events wakes nobody")
	}
}

// A claim's answer makes what is older void, and nothing else.
func TestNoticesForgetWhatIsOlderThanTheAnswer(t *testing.T) {
	n := notices{
		wake:   map[int]release{0: {token: 7}, 1: {token: 8}},
		events: map[int]release{0: {token: 7}, 1: {token: 8}, 2: {token: 9}}, elected: 9,
		claimAt: time.Now(), confirmAt: time.Now(),
	}
	n.forget(8)
	if len(n.wake) != 1 || len(n.events) != 2 || n.wake[1].token != 8 || n.elected != 9 {
		t.Errorf("of the answer that named 8: %+v", n)
	}
	if !n.claimAt.IsZero() || !n.confirmAt.IsZero() {
		t.Error("the time to claim is still planned")
	}
	if n.forget(9); n.elected != 0 {
		t.Error("the election of the term that we saw is news")
	}
}

// Reports of the end of an older term are no reason to run against a newer leader, unless
// a majority tells of the newer one's end.
func TestNoticesOfALeaderThatWasReplaced(t *testing.T) {
	for _, c := range []struct {
		released [3]uint64 // by node
		replaced bool
	}{{[3]uint64{7, 7, 7}, true}, {[3]uint64{7, 7, 9}, true}, {[3]uint64{7, 9, 9}, false}, {[3]uint64{10, 9, 7}, false}} {
		n, reports := notices{elected: 9}, map[int]release{}
		for node, token := range c.released {
			reports[node] = release{token: token}
		}
		if got := n.replaced(reports, 2); got != c.replaced {
			t.Errorf("%v: %v", c.released, got)
		}
	}
}

func TestNoticesNameAFavourite(t *testing.T) {
	got := names(map[int]release{0: {next: "b"}, 1: {next: "b"}, 2: {}, 3: {next: quorum.Reservation("b")}})
	if len(got) != 2 || got["b"] != 2 || got[quorum.Reservation("b")] != 1 {
		t.Errorf("%v", got)
	}
}
