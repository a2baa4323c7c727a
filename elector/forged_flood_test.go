package elector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// flood publishes a message on all nodes again and again, for d.
func flood(c *cluster, channel string, every, d time.Duration, message func(i int) string) {
	for i := range int(d / every) {
		for _, nd := range c.Nodes {
			nd.Server().Publish("mandate:{orders}:"+channel, message(i))
		}
		time.Sleep(every)
	}
}

// Regression: anyone who published "paused" and "resumed" filled the log, and made followers
// claim.
func TestForgedPausesAreNotBelieved(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		say := func(kind string) func(int) string {
			return func(i int) string { return fmt.Sprintf(`{"v":1,"kind":%q,"election":"orders","note":"n%d"}`, kind, i) }
		}
		began := time.Now()
		flood(c, "ask", 10*time.Millisecond, shortLease, say("paused"))
		flood(c, "ask", 10*time.Millisecond, shortLease, say("resumed"))
		if claims, _ := claims(c.Nodes[0], began); claims > 10 {
			t.Errorf("%d claims in two leases", claims)
		}
		for _, x := range []*candidate{a, b} {
			if lines := x.Log.Lines("msg=\"election "); len(lines) > 0 {
				t.Errorf("%s logged %d lines: %s", x.ID(), len(lines), lines[0])
			}
		}
		// A true pause, and forged ends of it.
		op := c.Quorum("operator")
		if err := electionOf(op, "orders").Pause(t.Context(), 0, "migration"); err != nil {
			t.Fatal(err)
		}
		a.Shutdown()
		b.Quiet(time.Second)
		began = time.Now()
		flood(c, "ask", 10*time.Millisecond, shortLease, say("resumed"))
		if claims, _ := claims(c.Nodes[0], began); claims > 30 {
			t.Errorf("%d claims in a lease of a pause", claims)
		}
		// Its begin, and the reminder that is due after 10 s.
		if lines := b.Log.Lines("msg=\"election "); len(lines) > 2 || len(b.Log.Lines("msg=\"election paused")) != 1 || len(b.Log.Lines("msg=\"election resumed")) != 0 {
			t.Errorf("%d lines: %v", len(lines), lines)
		}
		if err := electionOf(op, "orders").Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Elected(shortLease/16 + 100*time.Millisecond)
	})
}

// Regression: messages at short intervals kept an observer from ever asking Redis; and it
// must not ask for each.
func TestMessagesDoNotStarveAnObserver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
		want(t, events, time.Second, elector.EventVacant, "", 0)
		go flood(c, "events", time.Millisecond, 3*shortLease, func(int) string {
			return `1 released 9007199254740991  {"v":1,"kind":"released","election":"orders","token":9007199254740991}`
		})
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		want(t, events, shortLease/8, elector.EventElected, "a", term.Token())
		c.Nodes[0].Took()
		time.Sleep(shortLease)
		reads := c.Nodes[0].TookOf("read")
		if reads > 30 {
			t.Errorf("%d queries in a lease", reads)
		}
		a.Shutdown()
		ev := next(t, events, shortLease/8)
		if ev.Token != term.Token() || ev.Kind != elector.EventReleased && ev.Kind != elector.EventVacant {
			t.Errorf("%+v", ev)
		}
		time.Sleep(3 * shortLease)
	})
}
