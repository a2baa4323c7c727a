package elector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

func TestPauseKeepsTheLeader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c)
		must(t, electionOf(op, "orders").Pause(t.Context(), 0, "database migration"))
		time.Sleep(2 * shortLease)
		if term.Err() != nil {
			t.Fatalf("a pause ended the term: %v", term.Err())
		}
		st, err := electionOf(op, "orders").Status(t.Context())
		if err != nil || !st.Paused || st.Pause != "database migration" || st.PauseLeft != 0 || st.Leader == nil {
			t.Errorf("%+v, %v", st, err)
		}
		all[0].Shutdown()
		requests := c.Nodes[0].Requests()
		all[1].Quiet(4 * shortLease)
		all[2].Shutdown() // restarts of all change nothing
		d := c.Start("d")
		d.Quiet(2 * shortLease)
		if asked := c.Nodes[0].Requests() - requests; asked > 40 {
			t.Errorf("%d requests in 6 leases of a pause", asked)
		}
		for _, x := range []*candidate{all[1], d} {
			if lines := x.Log.Lines("election paused", "database migration"); len(lines) != 1 {
				t.Errorf("%s logged the pause %d times", x.ID(), len(lines))
			}
			if err := x.Check(); err != nil {
				t.Errorf("%s is not ready in a pause: %v", x.ID(), err)
			}
		}
		must(t, electionOf(op, "orders").Resume(t.Context()))
		_, next := first(t, 200*time.Millisecond, all[1], d)
		newer(t, next, term)
	})
}

func TestPauseEndsAutomatically(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		must(t, electionOf(op, "orders").Pause(t.Context(), 3*shortLease, ""))
		a := c.Start("a")
		a.Quiet(3*shortLease - time.Millisecond)
		a.Elected(2 * shortLease)
	})
}

func TestPauseNeedsAMajority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		c.Nodes[0].Set(down, "operator")
		if err := electionOf(op, "orders").Pause(t.Context(), 0, ""); err == nil || errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "7001") {
			t.Errorf("one node down: %v", err)
		}
		c.Nodes[1].Set(down, "operator")
		if err := electionOf(op, "orders").Resume(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("two nodes down: %v", err)
		}
	})
}

// makesRoom are the settings by which a leader steps down for another one.
var makesRoom = map[string]func(*elector.Config){
	"MaxTerm":    func(cfg *elector.Config) { cfg.MaxTerm = 3 * shortLease },
	"ByPriority": func(cfg *elector.Config) { cfg.Succession, cfg.Priority = elector.SuccessionPriority, int(cfg.ID[0]) },
}

// In a pause nobody new is elected: so nobody steps down for somebody new either,
// unless an operator asks for it.
func TestNoLeaderMakesRoomInAPause(t *testing.T) {
	for name, change := range makesRoom {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			_, term := leading(c, "a", change)
			op := c.Quorum("operator")
			c.Each(fault{LoseMessages: true}, "a") // its renewals tell it
			must(t, electionOf(op, "orders").Pause(t.Context(), 0, "migration"))
			time.Sleep(shortLease / 2)
			c.Heal()
			b := c.Start("b", change)
			b.Quiet(6 * shortLease)
			continues(t, term)
			if _, _, err := electionOf(op, "orders").Transfer(within(t, time.Minute), "b"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "migration") {
				t.Errorf("transfer in a pause: %v", err)
			}
			continues(t, term)
			must(t, electionOf(op, "orders").Resume(t.Context()))
			b.Elected(2 * shortLease)
		})
	}
}

// A Redis without memory lets a leader renew and release, and no one take the lock: a leader
// that made room there on its own account would leave the election without one.
func TestNoLeaderMakesRoomOnFullNodes(t *testing.T) {
	for name, change := range makesRoom {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			_, term := leading(c, "a", change)
			full := func(full bool) {
				for i := range 2 {
					c.Nodes[i].Fill(full)
				}
			}
			full(true)
			b := c.Start("b", change)
			b.Quiet(6 * shortLease)
			continues(t, term)
			if lines := b.Log.Lines("cannot campaign", "OOM"); len(lines) == 0 || len(lines) > 2 { // and after 10 s
				t.Errorf("logged %q", lines)
			}
			full(false)
			b.Elected(2 * shortLease)
			wantReason(t, term, atOnce, elector.ReasonHandover)
		})
	}
}

// A pause replaces the one before; who did what is in the history.
func TestPausesOfSeveralOperators(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		el := electionOf(c.Quorum("operator"), "orders")
		ann, bob, cyd := el.As("ann"), el.As("bob"), el.As("cyd")
		began := time.Now().Truncate(time.Millisecond)
		pausedBy := func(who, reason string, since time.Duration) {
			t.Helper()
			st, err := el.Status(t.Context())
			if err != nil || !st.Paused || st.PauseBy != who || st.PauseReason != reason || st.PauseSince.Sub(began) < since || st.PauseSince.Sub(began) > since+time.Second {
				t.Errorf("paused %v by %q (%s, %q) since %v, %v; want by %s (%s)", st.Paused, st.PauseBy, st.PauseReason, st.Pause, st.PauseSince.Sub(began), err, who, reason)
			}
		}
		must(t, ann.Pause(t.Context(), time.Hour, "migration"))
		pausedBy("ann", "migration", 0)
		time.Sleep(time.Minute)
		must(t, ann.Pause(t.Context(), 0, "still"))
		pausedBy("ann", "still", time.Minute)
		time.Sleep(time.Minute)
		must(t, bob.Pause(t.Context(), 0, ""))
		pausedBy("bob", "", 2*time.Minute)
		time.Sleep(time.Minute)
		for range 2 { // the second one ends nothing
			must(t, cyd.Resume(t.Context()))
		}
		must(t, el.Pause(t.Context(), time.Minute, "")) // there is none
		if st, err := el.Status(t.Context()); err != nil || st.Pause != "no reason given" || st.PauseBy != "" || st.PauseReason != "" {
			t.Errorf("%+v, %v", st, err)
		}
		look := el.Look(t.Context(), 500)
		got, err := look.Pauses, look.TermsErr
		text := ""
		for _, p := range got {
			text += fmt.Sprintf("%s/%s/%v/%v/%s ", p.By, p.Reason, p.For, !p.Until.IsZero(), p.EndedBy)
		}
		if want := "//1m0s/false/ bob//0s/true/cyd ann/still/0s/true/bob ann/migration/1h0m0s/true/ann "; err != nil || text != want {
			t.Errorf("recorded %q, want %q, %v", text, want, err)
		}
	})
}
