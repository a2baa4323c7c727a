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
