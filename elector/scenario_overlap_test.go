package elector_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// historyOf is the history of an election by candidate; each must have led once.
func historyOf(t *testing.T, q *elector.Quorum, ids ...string) map[string]elector.TermRecord {
	t.Helper()
	all, err := q.History(t.Context(), "", "orders", 20)
	if err != nil {
		t.Fatal(err)
	}
	terms := map[string]elector.TermRecord{}
	for _, r := range all {
		if _, twice := terms[r.Candidate]; twice {
			t.Errorf("%s led twice: %+v", r.Candidate, all)
		}
		terms[r.Candidate] = r
	}
	for _, id := range ids {
		if _, ok := terms[id]; !ok {
			t.Fatalf("no term of %s: %+v", id, all)
		}
	}
	return terms
}

// findingOf is the outcome of a check.
func findingOf(t *testing.T, q *elector.Quorum, check string) (elector.Finding, bool) {
	t.Helper()
	all, err := q.Diagnose(t.Context(), "", "orders", shortLease)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(f elector.Finding) bool { return f.Check == check })
	if i < 0 {
		return elector.Finding{}, false
	}
	return all[i], true
}

// Two lead, each on a majority of its own list. The node that both have received what
// they reported.
func TestHistoryMarksTwoLeaders(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		c.seed()
		a := c.startOn("a", []int{0, 1, 2})
		one := a.elected(3 * shortLease)
		time.Sleep(3 * shortLease)
		c.nodes[0].set(down)
		b := c.startOn("b", []int{0, 3, 4})
		two := b.elected(3 * shortLease)
		time.Sleep(2 * shortLease)
		if !one.Valid() || !two.Valid() {
			t.Fatalf("both led: %v, %v", one.Err(), two.Err())
		}
		c.nodes[0].heal()
		time.Sleep(3 * shortLease) // they meet, and one makes room
		a.shutdown()
		time.Sleep(time.Second)
		b.shutdown()
		time.Sleep(time.Second)
		for _, nodes := range [][]int{{0, 1, 2}, {0, 3, 4}} {
			q := c.quorumOf("operator", nodes...)
			all, err := q.History(t.Context(), "", "orders", 20)
			if err != nil {
				t.Fatal(err)
			}
			marks := map[uint64][]uint64{}
			for _, r := range all {
				marks[r.Token] = r.Overlaps
			}
			if !slices.Contains(marks[one.Token()], two.Token()) || !slices.Contains(marks[two.Token()], one.Token()) {
				t.Errorf("%v: not marked: %+v", nodes, all)
			}
			f, ok := findingOf(t, q, "overlap")
			if !ok || f.Level != elector.Warn || !strings.Contains(f.Found, "a (token ") || !strings.Contains(f.Found, "b (token ") || f.Advice == "" {
				t.Errorf("%v: doctor says %+v", nodes, f)
			}
		}
	})
}

// The sitting leader's term is marked while it leads still.
func TestHistoryMarksTheSittingLeader(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		c.seed()
		a := c.startOn("a", []int{0, 1, 2})
		one := a.elected(3 * shortLease)
		time.Sleep(3 * shortLease)
		c.nodes[0].set(cut, "a") // of the list of a, two stay
		c.nodes[0].server().Del(lockKey)
		b := c.startOn("b", []int{0, 3, 4})
		two := b.elected(3 * shortLease)
		time.Sleep(2 * shortLease)
		q := c.quorumOf("operator", 0, 1, 2)
		if !one.Valid() || !two.Valid() {
			t.Fatalf("both lead: %v, %v", one.Err(), two.Err())
		}
		terms := historyOf(t, q, "a", "b")
		if !terms["a"].Current || !slices.Equal(terms["a"].Overlaps, []uint64{two.Token()}) || !slices.Equal(terms["b"].Overlaps, []uint64{one.Token()}) {
			t.Errorf("%+v", terms)
		}
		if f, ok := findingOf(t, q, "overlap"); !ok || f.Level != elector.Fail {
			t.Errorf("doctor says %+v", f)
		}
	})
}

// A leader that is cut off, and whose work goes on after its lease, reports its end when
// another one leads: its lease had ended before, so they overlap as little as those of a
// handover.
func TestHistoryMarksNoLateReport(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.seed()
		wakes := make(chan struct{})
		a := makeCandidate(t, c.quorum("a"), "a").run(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			<-wakes
			return nil
		})
		one := a.elected(3 * shortLease)
		b := c.start("b")
		time.Sleep(2 * shortLease)
		c.each(cut, "a")
		wantReason(t, one, 2*shortLease, elector.ReasonExpired)
		b.elected(2 * shortLease)
		time.Sleep(4 * shortLease)
		c.heal()
		time.Sleep(shortLease)
		close(wakes)
		a.shutdown()
		time.Sleep(time.Second)
		d := c.start("d")
		b.shutdown()
		d.elected(shortLease)
		time.Sleep(shortLease)
		q := c.quorum("operator")
		terms := historyOf(t, q, "seed", "a", "b", "d")
		if r := terms["a"]; r.Gap > -4*shortLease {
			t.Fatalf("it did not report its end late: %+v", r)
		}
		for id, r := range terms {
			if len(r.Overlaps) > 0 {
				t.Errorf("%s is marked: %+v", id, r)
			}
		}
		if f, ok := findingOf(t, q, "overlap"); ok {
			t.Errorf("doctor says %+v", f)
		}
	})
}
