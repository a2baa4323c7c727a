package elector_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// historyOf is the history of an election by candidate; each must have led once.
func historyOf(t *testing.T, q *elector.Quorum, ids ...string) map[string]elector.TermRecord {
	t.Helper()
	all, err := electionOf(q, "orders").History(t.Context(), 20)
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
func findingOf(t *testing.T, q *elector.Quorum, check string) (doctor.Finding, bool) {
	t.Helper()
	all, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders", Lease: shortLease})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Check == check })
	if i < 0 {
		return doctor.Finding{}, false
	}
	return all[i], true
}

// Two lead, each on a majority of its own list, until they meet on the node that both
// have, which received what they reported. Its counter is below the later one's token if
// that one makes room.
func TestHistoryMarksTwoLeaders(t *testing.T) {
	for _, stays := range []string{"a", "b"} {
		t.Run(stays+" stays", func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, c *cluster) {
				a, one, b, two := c.TwoLeaders()
				time.Sleep(2 * shortLease)
				if !one.Valid() || !two.Valid() {
					t.Fatalf("both led: %v, %v", one.Err(), two.Err())
				}
				loses, lost := b, two
				if stays == "b" {
					loses, lost = a, one
				}
				c.Nodes[0].Heal()
				c.Nodes[0].Set(down, loses.ID()) // the other one gets there first
				time.Sleep(shortLease)
				c.Nodes[0].Heal()
				wantReason(t, lost, 2*shortLease, elector.ReasonLost)
				loses.Shutdown()
				time.Sleep(time.Second)
				(map[string]*candidate{"a": a, "b": b})[stays].Shutdown()
				time.Sleep(time.Second)
				for _, nodes := range [][]int{{0, 1, 2}, {0, 3, 4}} {
					wantOverlap(t, c.QuorumOf("operator", nodes...), one, two)
				}
			})
		})
	}
}

// wantOverlap wants each of the two terms that the history has to name the other one, and
// doctor to name both.
func wantOverlap(t *testing.T, q *elector.Quorum, one, two *elector.Term) {
	t.Helper()
	all, err := electionOf(q, "orders").History(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, r := range all {
		want := map[uint64][]uint64{one.Token(): {two.Token()}, two.Token(): {one.Token()}}[r.Token]
		if !slices.Equal(r.Overlaps, want) {
			t.Errorf("%+v: want overlaps %v", r, want)
		}
		marked += len(r.Overlaps)
	}
	if marked == 0 {
		t.Errorf("not marked: %+v", all)
	}
	f, ok := findingOf(t, q, "overlap")
	if !ok || f.Level != doctor.LevelWarn || f.Advice == "" {
		t.Errorf("doctor says %+v", f)
	}
	for _, term := range []*elector.Term{one, two} {
		if !strings.Contains(f.Found, fmt.Sprintf("(token %d", term.Token())) {
			t.Errorf("doctor does not name token %d: %s", term.Token(), f.Found)
		}
	}
}

// The sitting leader's term is marked while it leads still.
func TestHistoryMarksTheSittingLeader(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		c.Seed()
		a := c.StartOn("a", []int{0, 1, 2})
		one := a.Elected(3 * shortLease)
		time.Sleep(3 * shortLease)
		c.Nodes[0].Set(cut, "a") // of the list of a, two stay
		c.Nodes[0].Server().Del(lockKey)
		b := c.StartOn("b", []int{0, 3, 4})
		two := b.Elected(3 * shortLease)
		time.Sleep(2 * shortLease)
		q := c.QuorumOf("operator", 0, 1, 2)
		if !one.Valid() || !two.Valid() {
			t.Fatalf("both lead: %v, %v", one.Err(), two.Err())
		}
		terms := historyOf(t, q, "a", "b")
		if !terms["a"].Current || !slices.Equal(terms["a"].Overlaps, []uint64{two.Token()}) || !slices.Equal(terms["b"].Overlaps, []uint64{one.Token()}) {
			t.Errorf("%+v", terms)
		}
		if f, ok := findingOf(t, q, "overlap"); !ok || f.Level != doctor.LevelFail {
			t.Errorf("doctor says %+v", f)
		}
	})
}

// A leader that is cut off, and whose work goes on after its lease, reports its end when
// another one leads: its lease had ended before, so they overlap as little as those of a
// handover.
func TestHistoryMarksNoLateReport(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		wakes := make(chan struct{})
		a := makeCandidate(t, c.Quorum("a"), "a").Begin(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			<-wakes
			return nil
		})
		one := a.Elected(3 * shortLease)
		b := c.Start("b")
		time.Sleep(2 * shortLease)
		c.Each(cut, "a")
		wantReason(t, one, 2*shortLease, elector.ReasonExpired)
		b.Elected(2 * shortLease)
		time.Sleep(4 * shortLease)
		c.Heal()
		time.Sleep(shortLease)
		close(wakes)
		a.Shutdown()
		time.Sleep(time.Second)
		d := c.Start("d")
		b.Shutdown()
		d.Elected(shortLease)
		time.Sleep(shortLease)
		q := c.Quorum("operator")
		terms := historyOf(t, q, "seed", "a", "b", "d")
		if r := terms["a"]; r.Gap > -4*shortLease {
			t.Fatalf("it did not report its end late: %+v", r)
		}
		if r := terms["a"]; r.Lasted > r.Until.Sub(r.From)/2 {
			t.Errorf("its lease ended long before its report: %+v", r)
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

// Regression: the times of a node's stream stand still after its clock was set back, and behind
// an entry that bears a time to come. Terms that followed each other were marked, and so was the
// leader whose begin was recorded late.
func TestHistoryBehindAClockThatStoodStill(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		node := c.Nodes[0].Server()
		ids := []string{"a", "b", "d", "e"}
		for i, id := range ids {
			now := c.Start(id)
			term := now.Elected(3 * shortLease)
			if i == 0 {
				if _, err := node.XAdd("mandate:{orders}:history", fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli()), []string{"event", "{}"}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Duration(i+2) * 3 * shortLease) // each longer than the one before
			if !term.Valid() {
				t.Fatal(term.Err())
			}
			if i < len(ids)-1 {
				now.Shutdown()
			}
		}
		q := c.Quorum("operator")
		terms := historyOf(t, q, ids...)
		if !terms["e"].Current {
			t.Errorf("%+v", terms["e"])
		}
		for id, r := range terms {
			if len(r.Overlaps) > 0 {
				t.Errorf("%s is marked: %+v", id, r)
			}
		}
		if f, ok := findingOf(t, q, "overlap"); ok {
			t.Errorf("doctor reports %+v", f)
		}
	})
}

// Reports that somebody copies into the history once more, in whatever order, mark no leader.
func TestHistoryOfCopiedReports(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		ids := []string{"a", "b", "d"}
		for i, id := range ids {
			now := c.Start(id)
			now.Elected(3 * shortLease)
			time.Sleep(3 * shortLease)
			if i < len(ids)-1 {
				now.Shutdown()
			}
		}
		node := c.Nodes[0].Server()
		entries, err := node.Stream("mandate:{orders}:history")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range slices.Backward(entries) {
			time.Sleep(2 * time.Second)
			if _, err := node.XAdd("mandate:{orders}:history", "*", e.Values); err != nil {
				t.Fatal(err)
			}
		}
		for id, r := range historyOf(t, c.Quorum("operator"), ids...) {
			if len(r.Overlaps) > 0 {
				t.Errorf("%s is marked: %+v", id, r)
			}
		}
	})
}
