package elector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A server that binds port 0 knows its address only after New. Each address is where
// others are sent to: it must be in the roll at once, and in the lock with the next
// renewal, without another term.
func TestSetAdvertise(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.Advertise = "a:0" })
		set := func(e *candidate, address string) {
			t.Helper()
			if err := e.SetAdvertise(address); err != nil || e.Advertise() != address {
				t.Fatalf("%s advertises %q, %v", e.ID(), e.Advertise(), err)
			}
		}
		set(a, "a:1") // before Run
		a.Begin(nil)
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		set(b, "b:1") // while it follows
		outside := electionOf(c.Quorum("outside"), "orders")
		all, err := outside.Candidates(t.Context())
		if err != nil || len(all) != 2 || all[0].Advertise != "a:1" || all[1].Advertise != "b:1" {
			t.Fatalf("the roll: %+v, %v", all, err)
		}

		own, others := watch(t, a), watch(t, b)
		for _, events := range []<-chan elector.Event{own, others} {
			if ev := want(t, events, time.Second, elector.EventElected, "a", term.Token()); ev.Advertise != "a:1" {
				t.Errorf("elected at %q", ev.Advertise)
			}
		}
		for _, address := range []string{"a:2", "", "a:3"} {
			set(a, address) // while it leads
			for _, events := range []<-chan elector.Event{own, others} {
				if ev := want(t, events, shortLease/4+time.Second, elector.EventAddress, "a", term.Token()); ev.Advertise != address {
					t.Errorf("%+v, want the address %q", ev, address)
				}
			}
			if l, err := outside.Leader(t.Context()); err != nil || l.Advertise != address || l.Token != term.Token() {
				t.Errorf("the leader in Redis: %+v, %v, want the address %q", l, err, address)
			}
		}
		b.Quiet(2 * shortLease)
		if l, ok := b.LastLeader(); !ok || l.Advertise != "a:3" || l.Token != term.Token() {
			t.Errorf("the last leader of b: %+v, %v", l, ok)
		}
		if all := append(never(t, own, nil), never(t, others, nil)...); len(all) > 0 || !term.Valid() {
			t.Errorf("without a change, in a term that is valid: %v: %+v", term.Valid(), all)
		}

		set(a, "a:4") // no renewal brings it to the nodes any more
		a.Shutdown()
		if ev := want(t, others, time.Second, elector.EventReleased, "a", term.Token()); ev.Advertise != "a:3" {
			t.Errorf("released at %q", ev.Advertise)
		}
		two := b.Elected(time.Second)
		if ev := want(t, others, time.Second, elector.EventElected, "b", two.Token()); ev.Advertise != "b:1" {
			t.Errorf("b is elected at %q", ev.Advertise)
		}
		time.Sleep(time.Second)
		records, err := outside.History(t.Context(), 2)
		if err != nil || len(records) != 2 || records[1].Advertise != "a:3" || records[0].Advertise != "b:1" {
			t.Errorf("the history: %+v, %v", records, err)
		}
	})
}

// A message that is forged, or late, makes an observer query Redis, and no more: the
// address is the lock's, of a majority.
func TestForgedAddressIsNotReported(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", func(cfg *elector.Config) { cfg.Advertise = "a:80" })
		term := a.Elected(3 * shortLease)
		events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		time.Sleep(shortLease/2 + time.Second) // just after a renewal
		lock, err := c.Nodes[1].Server().Get(lockKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Nodes[1].Server().Set(lockKey, strings.Replace(lock, "addr=a:80", "addr=evil:80", 1)); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			publish(c, "events", forge(elector.EventAddress, "a", "evil:80", term.Token()))
			time.Sleep(100 * time.Millisecond)
			l, err := electionOf(c.Quorum("outside"), "orders").Leader(t.Context())
			if err != nil || l.Advertise != "a:80" {
				t.Errorf("%+v, %v", l, err)
			}
		}
		if all := never(t, events, nil); len(all) > 0 {
			t.Errorf("reported: %+v", all)
		}
	})
}

// What can't stand in the lock is refused, and changes nothing.
func TestSetAdvertiseRefuses(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.Advertise = "a:80" })
		for _, address := range []string{"a 80", "a\n", strings.Repeat("a", 257)} {
			err := a.SetAdvertise(address)
			var config *elector.ConfigError
			if !errors.As(err, &config) || len(config.Problems(strings.ToUpper)) != 1 || !strings.HasPrefix(config.Problems(strings.ToUpper)[0], "ADVERTISE ") || a.Advertise() != "a:80" {
				t.Errorf("%q: %v; it advertises %q", address, err, a.Advertise())
			}
		}
		var zero elector.Elector
		if err := zero.SetAdvertise("a:80"); err == nil || zero.Advertise() != "" {
			t.Errorf("an Elector that New did not make: %v, %q", err, zero.Advertise())
		}
	})
}
