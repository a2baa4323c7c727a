package elector_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// A history is told by all nodes together, also when the first one lost its own. A minority may
// be away; a majority not.
func TestHistoryOfTheNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, one := leading(c, "a", func(cfg *elector.Config) { cfg.Cooldown = -1 })
		time.Sleep(time.Second)
		must(t, a.Resign(t.Context()))
		time.Sleep(time.Millisecond)
		two := a.Elected(3 * shortLease)
		time.Sleep(time.Second) // the reports have arrived
		q := c.Quorum("operator")
		orders := electionOf(q, "orders")
		told := func(what string, is error) {
			t.Helper()
			got, err := orders.History(t.Context(), 10)
			if !errors.Is(err, is) || len(got) != 2 {
				t.Fatalf("%s: %+v, %v", what, got, err)
			}
			if r := got[0]; r.Token != two.Token() || !r.Current || r.Lasted <= 0 {
				t.Errorf("%s: the newest: %+v", what, r)
			}
			if r := got[1]; r.Token != one.Token() || r.Current || r.Reason != elector.ReasonResigned || r.Lasted <= 0 || r.Gap == 0 {
				t.Errorf("%s: the one before: %+v", what, r)
			}
		}
		told("all are well", nil)
		c.Nodes[0].Server().Del("mandate:{orders}:history")
		told("the first one lost its own", nil)
		if names, err := q.Elections(t.Context()); err != nil || !slices.Equal(names, []string{"orders"}) {
			t.Errorf("elections %q, %v", names, err)
		}
		c.Nodes[0].Set(down)
		told("one is away", nil)
		if names, err := q.Elections(t.Context()); err == nil || errors.Is(err, elector.ErrUnreachable) || len(names) != 1 {
			t.Errorf("with one node away: elections %q, %v", names, err)
		}
		c.Nodes[1].Set(down)
		if got, err := orders.History(t.Context(), 10); !errors.Is(err, elector.ErrUnreachable) || len(got) != 2 {
			t.Errorf("with two nodes away: %+v, %v", got, err)
		}
		c.Heal()
	})
}

// A leader whose work takes long to stop says so, and is not called vanished if it is killed then.
func TestHistoryOfALeaderKilledWhileItStops(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		kill := make(chan struct{})
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.DrainTimeout = time.Minute })
		a.Begin(func(context.Context, *elector.Term) error { <-kill; return nil })
		a.Elected(3 * shortLease)
		b := c.Start("b")
		a.Stop()
		time.Sleep(3 * time.Second)
		orders := electionOf(c.Quorum("operator"), "orders")
		if got, err := orders.History(t.Context(), 1); err != nil || !got[0].Current || got[0].Reason != "" {
			t.Errorf("while it stops: %+v, %v", got, err)
		}
		c.Nodes[1].Set(down)
		c.Nodes[2].Set(down)
		if got, _ := orders.History(t.Context(), 1); len(got) != 1 || got[0].Reason != "" || got[0].Detail != "" {
			t.Errorf("while it is not known who leads: %+v", got)
		}
		c.Heal()
		c.Each(down, "a")
		b.Elected(5 * shortLease)
		time.Sleep(time.Second)
		got, err := orders.History(t.Context(), 2)
		if err != nil || len(got) != 2 || got[1].Reason != elector.ReasonShutdown || !strings.HasSuffix(got[1].Detail, "its process was gone before its work had stopped") {
			t.Errorf("%+v, %v", got, err)
		}
		c.Heal()
		close(kill)
	})
}

// The list of names is one key for all elections, of which each list of a node is made.
func TestElectionsNameAForeignKey(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		must(t, second(c.Nodes[0].Server().Push("mandate:elections", "x")))
		_, err := c.Quorum("operator").Elections(t.Context())
		if err == nil || !strings.Contains(err.Error(), "MANDATE key mandate:elections holds another type than a sorted set (see what it holds") {
			t.Errorf("%v", err)
		}
	})
}

// Pauses stand in the same stream as the terms: any number of them under one leader must not
// push its term out of the history, nor the moment when it began out of the status.
func TestHistoryBehindManyPauses(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, term := leading(c, "a")
		time.Sleep(time.Second) // its report has arrived
		el := electionOf(c.Quorum("op"), "orders")
		const pauses = 60
		for range pauses {
			must(t, el.Pause(t.Context(), 0, "drill"))
			must(t, el.Resume(t.Context()))
			time.Sleep(time.Second)
		}
		is := func(what string, got []elector.TermRecord, err error) {
			t.Helper()
			if err != nil || len(got) != 1 || got[0].Token != term.Token() || !got[0].Current || got[0].From.IsZero() {
				t.Errorf("%s: %+v, %v", what, got, err)
			}
		}
		for _, n := range []int{1, 10} {
			got, err := el.History(t.Context(), n)
			is("History", got, err)
		}
		r := doctor.Read(t.Context(), el, 500)
		if is("Read", r.Terms, r.TermsErr); len(r.Pauses) != pauses {
			t.Errorf("Read: %d pauses", len(r.Pauses))
		}
		for _, n := range c.Nodes { // nor entries of another program
			for range 100 {
				must(t, second(n.Server().XAdd("mandate:{orders}:history", "*", []string{"other", ""})))
			}
		}
		got, err := el.History(t.Context(), 10)
		is("History behind others' entries", got, err)

		// The last term is behind the pauses.
		a.Shutdown()
		for range 5 {
			must(t, el.Pause(t.Context(), 0, ""))
			must(t, el.Resume(t.Context()))
			time.Sleep(time.Second)
		}
		if got, err := el.History(t.Context(), 1); err != nil || len(got) != 1 || got[0].From.IsZero() || got[0].Lasted == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
