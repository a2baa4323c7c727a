package elector_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

func TestKeyDeletedOnAMajority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease + time.Second)
		for _, nd := range c.Nodes[:2] {
			nd.Server().Del(lockKey)
		}
		wantReason(t, term, shortLease/4, elector.ReasonLost)
		if next := a.Elected(2 * shortLease); next.Token() <= term.Token() {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
	})
}

func TestKeyOverwritten(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease + time.Second)
		for _, nd := range c.Nodes[:2] {
			if err := nd.Server().Set(lockKey, "maintenance by joe"); err != nil {
				t.Fatal(err)
			}
		}
		wantReason(t, term, shortLease/4, elector.ReasonLost)
		a.Quiet(10 * shortLease)
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), lockKey) || !strings.Contains(err.Error(), "maintenance by joe") {
			t.Errorf("Check does not name the key and its value: %v", err)
		}
		if lines := a.Log.Lines("cannot campaign"); len(lines) != 1 {
			t.Errorf("logged %d times", len(lines))
		}
		for _, nd := range c.Nodes {
			if v, _ := nd.Server().Get(lockKey); strings.Contains(v, "joe") {
				nd.Server().Del(lockKey)
			}
		}
		if next := a.Elected(2 * shortLease); next.Token() <= term.Token() {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
	})
}

// While nobody looks: everything is gone, counters too.
func TestFlushAllWithoutALeader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		last := c.Seed().Token()
		for range 3 {
			for _, nd := range c.Nodes {
				nd.Server().FlushAll()
			}
			a := c.Start("a")
			term := a.Elected(3 * shortLease)
			if term.Token() <= last {
				t.Fatalf("token %d after %d", term.Token(), last)
			}
			last = term.Token()
			a.Shutdown()
		}
	})
}

func TestOwnClaimWhoseReplyWasLost(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		for _, nd := range c.Nodes {
			nd.LoseReply("claim", 1)
		}
		a := c.Start("a")
		term := a.Elected(shortLease / 8) // not after the phantom's lease
		time.Sleep(3 * shortLease)
		if !term.Valid() {
			t.Fatalf("lost: %v", term.Err())
		}
	})
}

func TestGarbageOnTheChannelsDoesNoHarm(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		b, d := c.Start("b"), c.Start("d")
		events := watch(t, b)
		b.Quiet(shortLease)
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		for _, nd := range c.Nodes {
			nd.Took()
		}
		messages := []string{
			"", "x", "{", "null", "[]", `{"v":1}`, strings.Repeat("x", 1<<20), "\xff\x00", `{"v":1,"kind":"released"}`,
			`{"v":1,"kind":"released","election":"other","token":99999999999999}`,
			`{"v":"one","kind":[],"election":{}}`,
			fmt.Sprintf(`{"v":1,"kind":"released","election":"orders","candidate":"a","token":%d}`, term.Token()),
			fmt.Sprintf(`{"v":1,"kind":"released","election":"orders","candidate":"a","token":%d,"next":"%s"}`, term.Token(), strings.Repeat("n", 9999)),
			fmt.Sprintf(`{"v":1,"kind":"elected","election":"orders","candidate":"evil","token":%d}`, term.Token()+5),
			`{"v":1,"kind":"elected","election":"orders","candidate":"evil","token":9007199254740991}`,
			`{"v":1,"kind":"released","election":"orders","token":9007199254740991}`,
			`{"v":1,"kind":"elected","election":"orders","candidate":"evil","token":18446744073709551615}`,
			"released", "released x", "elected ", "elected -1", "released 18446744073709551615 x", fmt.Sprint("elected ", term.Token()+5),
			fmt.Sprint("released ", term.Token()), fmt.Sprint("released ", term.Token(), " ", strings.Repeat("n ", 9999)),
		}
		const rounds = 500
		for range rounds {
			m := messages[rand.IntN(len(messages))]
			for _, nd := range c.Nodes {
				nd.Server().Publish("mandate:{orders}:events", []string{"", fmt.Sprint("released ", term.Token(), "  "), fmt.Sprint("elected ", term.Token()+5, "  ")}[rand.IntN(3)]+m)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !term.Valid() {
			t.Fatalf("messages ended the term: %v", term.Err())
		}
		claims := c.Nodes[0].TookOf("claim")
		if claims > rounds/10 {
			t.Errorf("%d messages made two followers claim %d times", rounds, claims)
		}
		select {
		case ev := <-events:
			t.Errorf("reported as true: %+v", ev)
		case <-time.After(time.Second):
		}
		a.Shutdown()
		_, next := first(t, shortLease, b, d)
		if next.Token() <= term.Token() || next.Token() > term.Token()+uint64(time.Hour/time.Millisecond) {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
		for _, x := range []*candidate{b, d} {
			if lines := x.Log.Lines("WARN"); len(lines) > 0 {
				t.Errorf("%s complains: %q", x.ID(), lines)
			}
		}
	})
}
