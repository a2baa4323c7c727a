package elector_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Whoever may only publish can make others ask Redis, and no more: these messages are
// plausible, from the right names to tokens that could be.

// forge is an event as a candidate would publish it.
func forge(kind string, candidate, advertise string, token uint64) string {
	b, err := json.Marshal(elector.Event{
		Version: 1, Kind: kind, Election: "orders", Candidate: candidate, Advertise: advertise, Token: token, Time: time.Now(),
	})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("1 %s %d  %s", kind, token, b)
}

func publish(c *cluster, channel, message string) {
	for _, nd := range c.Nodes {
		nd.Server().Publish("mandate:{orders}:"+channel, message)
	}
}

// never fails when an event names anybody but these candidates, each at its address.
func never(t testing.TB, events <-chan elector.Event, advertised map[string]string) (all []elector.Event) {
	t.Helper()
	for {
		select {
		case ev := <-events:
			if at, known := advertised[ev.Candidate]; ev.Candidate != "" && (!known || at != ev.Advertise) {
				t.Errorf("%s of %q at %q, token %d: Redis never showed it", ev.Kind, ev.Candidate, ev.Advertise, ev.Token)
			}
			all = append(all, ev)
		default:
			return all
		}
	}
}

func advertising(cfg *elector.Config) { cfg.Advertise = cfg.ID + ":80" }

func TestForgedLeadersAreNotReported(t *testing.T) {
	names := map[string]string{"a": "a:80", "b": "b:80"}
	t.Run("counter above the token", func(t *testing.T) {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			a := c.Start("a", advertising)
			term := a.Elected(3 * shortLease)
			time.Sleep(shortLease)
			events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
			want(t, events, time.Second, elector.EventElected, "a", term.Token())
			// A failed claim has raised one node's counter.
			if err := c.Nodes[2].Server().Set(fenceKey, strconv.FormatUint(term.Token()+3, 10)); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(3) {
				publish(c, "events", forge(elector.EventElected, "evil", "evil:80", term.Token()+i))
				publish(c, "events", forge(elector.EventElected, "a", "evil:80", term.Token()+i))
				publish(c, "events", forge(elector.EventReleased, "a", "a:80", term.Token()+i))
			}
			time.Sleep(shortLease)
			if all := never(t, events, names); len(all) > 0 {
				t.Errorf("while a leads: %+v", all)
			}
			a.Shutdown()
			end := want(t, events, shortLease, elector.EventReleased, "a", term.Token())
			if end.Advertise != "a:80" {
				t.Errorf("the end: %+v", end)
			}
		})
	})
	t.Run("between two leaders", func(t *testing.T) {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			a := c.Start("a", advertising)
			one := a.Elected(3 * shortLease)
			events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
			want(t, events, time.Second, elector.EventElected, "a", one.Token())
			a.Shutdown()
			want(t, events, shortLease, elector.EventReleased, "a", one.Token())
			publish(c, "events", forge(elector.EventElected, "evil", "evil:80", one.Token()+1))
			time.Sleep(shortLease / 2)
			if all := never(t, events, names); len(all) > 0 {
				t.Errorf("while no candidate leads: %+v", all)
			}
			two := c.Start("b", advertising).Elected(shortLease)
			time.Sleep(time.Millisecond) // b has published its own report, and nobody has looked yet
			publish(c, "events", forge(elector.EventElected, "b", "evil:80", two.Token()))
			if ev := want(t, events, shortLease, elector.EventElected, "b", two.Token()); ev.Advertise != "b:80" {
				t.Errorf("%+v", ev)
			}
			publish(c, "events", forge(elector.EventElected, "evil", "evil:80", one.Token()+2))
			publish(c, "events", forge(elector.EventReleased, "evil", "evil:80", one.Token()+2))
			time.Sleep(shortLease)
			if all := never(t, events, names); len(all) > 0 {
				t.Errorf("while b leads: %+v", all)
			}
		})
	})
	t.Run("first", func(t *testing.T) {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
			want(t, events, time.Second, elector.EventVacant, "", 0)
			a := c.Start("a", advertising)
			// By the clock: the token of the next millisecond, at each of them.
			for range 20 {
				publish(c, "events", forge(elector.EventElected, "a", "evil:80", uint64(time.Now().UnixMilli())))
				time.Sleep(500 * time.Microsecond)
			}
			term := a.Elected(3 * shortLease)
			if ev := want(t, events, shortLease, elector.EventElected, "a", term.Token()); ev.Advertise != "a:80" {
				t.Errorf("%+v", ev)
			}
			time.Sleep(shortLease)
			never(t, events, names)
		})
	})
}

// Regression: nodes could not show a lock for a moment, and a forged report of its holder's
// end was believed just then: the leader was never reported again, for as long as it led.
func TestForgedEndOfALeaderThatStays(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", advertising)
		term := a.Elected(3 * shortLease)
		events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		time.Sleep(shortLease + time.Second) // a second after a renewal
		lock, err := c.Nodes[0].Server().Get(lockKey)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c.Nodes[:2] {
			n.Server().Del(lockKey)
		}
		publish(c, "events", forge(elector.EventReleased, "a", "a:80", term.Token()))
		time.Sleep(100 * time.Millisecond)
		for _, n := range c.Nodes[:2] {
			_ = n.Server().Set(lockKey, lock)
			n.Server().SetTTL(lockKey, shortLease)
		}
		want(t, events, time.Second, elector.EventReleased, "a", term.Token())
		want(t, events, 3*shortLease, elector.EventElected, "a", term.Token())
		if !term.Valid() {
			t.Fatalf("the term ended: %v", term.Err())
		}
		a.Shutdown()
		if end := want(t, events, shortLease, elector.EventReleased, "a", term.Token()); end.Reason != elector.ReasonShutdown {
			t.Errorf("ended: %+v", end)
		}
	})
}

// A Redis whose clock was days ahead loses its data, and its clock is mended: tokens
// are lower from then on, and observers must not wait for them to catch up.
func TestObserversFollowTokensThatGoDown(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		srv := c.Nodes[0].Server()
		srv.SetTime(time.Now().Add(48 * time.Hour)) // TIME only: what the token comes from
		a := c.Start("a", advertising)
		one := a.Elected(3 * shortLease)
		events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
		want(t, events, time.Second, elector.EventElected, "a", one.Token())
		b := c.Start("b", advertising)
		b.Quiet(shortLease)
		crash(c, a)
		srv.FlushAll()
		srv.SetTime(time.Time{})
		// b remembers the token of before; a candidate that starts now does not.
		crash(c, b)
		d := c.Start("d", advertising)
		two := d.Elected(5 * shortLease)
		if two.Token() >= one.Token() {
			t.Fatalf("token %d after %d: nothing to see here", two.Token(), one.Token())
		}
		for {
			ev := next(t, events, 3*shortLease)
			if ev.Kind == elector.EventElected {
				if ev.Candidate != "d" || ev.Token != two.Token() || ev.Advertise != "d:80" {
					t.Errorf("%+v", ev)
				}
				break
			}
		}
		d.Shutdown()
		want(t, events, shortLease, elector.EventReleased, "d", two.Token())
	})
}
