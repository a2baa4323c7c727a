package elector_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
)

// A history is told by all nodes together, also when the first one lost its own.
func TestHistoryOfTheNodes(t *testing.T) {
	var urls []string
	var nodes []*miniredis.Miniredis
	for range 3 {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		nodes = append(nodes, m)
		urls = append(urls, "redis://"+m.Addr())
	}
	q, err := elector.Open(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	a := makeCandidate(t, q, "a", func(c *elector.Config) { c.Cooldown = time.Nanosecond }).Begin(nil)
	one := a.Elected(time.Minute)
	if err := a.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	two := a.Elected(time.Minute)
	var got []elector.TermRecord
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if got, err = electionOf(q, "orders").History(t.Context(), 10); err == nil && len(got) == 2 && !got[1].Until.IsZero() && !got[0].From.IsZero() {
			break
		}
	}
	if len(got) != 2 || err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if r := got[0]; r.Token != two.Token() || !r.Current || r.Lasted <= 0 {
		t.Errorf("the newest: %+v", r)
	}
	if r := got[1]; r.Token != one.Token() || r.Current || r.Reason != elector.ReasonResigned || r.Lasted <= 0 || r.Gap == 0 {
		t.Errorf("the one before: %+v", r)
	}
	nodes[0].Del("mandate:{orders}:history")
	var again []elector.TermRecord // reports are sent to each node, and awaited by nobody
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if again, err = electionOf(q, "orders").History(t.Context(), 1); err == nil && len(again) == 1 && again[0].Token == two.Token() {
			break
		}
	}
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) { // the last node may be the last to receive them
		if entries, _ := nodes[2].Stream("mandate:{orders}:history"); len(entries) >= 3 {
			break
		}
	}
	if err != nil || len(again) != 1 || again[0].Token != two.Token() {
		t.Errorf("without the first node's: %+v, %v", again, err)
	}
	names, err := q.Elections(t.Context())
	if err != nil || !slices.Equal(names, []string{"orders"}) {
		t.Errorf("elections %q, %v", names, err)
	}

	// A minority may be away; a majority not.
	nodes[0].Close()
	if again, err := electionOf(q, "orders").History(t.Context(), 10); err != nil || len(again) != 2 {
		t.Errorf("with one node away: %+v, %v", again, err)
	}
	if names, err = q.Elections(t.Context()); err == nil || errors.Is(err, elector.ErrUnreachable) || len(names) != 1 {
		t.Errorf("with one node away: elections %q, %v", names, err)
	}
	nodes[1].Close()
	if again, err := electionOf(q, "orders").History(t.Context(), 10); !errors.Is(err, elector.ErrUnreachable) || len(again) != 2 {
		t.Errorf("with two nodes away: %+v, %v", again, err)
	}
	if _, err := q.Election("a b"); err == nil {
		t.Error("a bad name was accepted")
	}
	if _, err := q.Namespace("a{b").Elections(t.Context()); err == nil {
		t.Error("a bad prefix was accepted")
	}
}

// Pauses stand in the same stream as the terms: any number of them under one leader must not
// push its term out of the history, nor the moment when it began out of the status.
func TestHistoryBehindManyPauses(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(time.Second) // its report has arrived
		el := electionOf(c.Quorum("op"), "orders")
		const pauses = 60
		for range pauses {
			if err := el.Pause(t.Context(), 0, "drill"); err != nil {
				t.Fatal(err)
			}
			if err := el.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
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
		if st, err := el.Status(t.Context()); err != nil || st.Leader == nil || st.Leader.Since.IsZero() {
			t.Errorf("%+v, %v", st.Leader, err)
		}
		if got, err := el.Pauses(t.Context()); err != nil || len(got) != pauses {
			t.Errorf("%d pauses, %v", len(got), err)
		}

		// The last term is behind the pauses.
		a.Shutdown()
		for range 5 {
			if err := el.Pause(t.Context(), 0, ""); err != nil {
				t.Fatal(err)
			}
			if err := el.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got, err := el.History(t.Context(), 1); err != nil || len(got) != 1 || got[0].From.IsZero() || got[0].Lasted == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A leader that is killed reports nothing: the next one knows for how long at most there was
// none, from the lease that it had seen, however long that term was.
func TestVanishedTermsHaveBounds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c)
		time.Sleep(20 * shortLease)
		killed := time.Now()
		crash(c, all[0])
		_, next := first(t, 2*shortLease, all[1], all[2])
		time.Sleep(shortLease) // its report has arrived
		got, err := electionOf(op, "orders").History(t.Context(), 10)
		if err != nil || len(got) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		without := next.Since().Sub(killed)
		was := got[1]
		// It waited for the end of that lease, so it had asked less than a lease and its
		// own spread (at most a quarter of one, on several nodes after a split vote) ago.
		if was.Reason != elector.ReasonVanished || was.Token != term.Token() || was.MaxGap < without || was.MaxGap > 2*shortLease {
			t.Errorf("%v without a leader; got at most %v: %+v", without, was.MaxGap, was)
		}
		if led := killed.Sub(was.From); was.MaxLasted < led || was.MaxLasted > led+2*shortLease {
			t.Errorf("it led for %v; got at most %v", led, was.MaxLasted)
		}
	})
}
