package elector_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const cordonHistoryKey = "mandate:{}:history"

// cordonsIn are the cordons of an election's time line, and of that of several.
func cordonsIn(t *testing.T, q *elector.Quorum) []elector.CordonRecord {
	t.Helper()
	one, err := electionOf(q, "orders").Timeline(t.Context(), 10, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := q.Timeline(t.Context(), []string{"orders"}, 10, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one.Cordons, all.Cordons) {
		t.Errorf("of one election %+v, of all %+v", one.Cordons, all.Cordons)
	}
	return one.Cordons
}

// What was cordoned is in the history when it is not any more, with who did it and why.
func TestCordonsAreInTheHistory(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				op := c.Quorum("operator")
				c.Start("a").Elected(3 * shortLease)
				if got := cordonsIn(t, op); len(got) != 0 || got == nil {
					t.Errorf("%#v", got)
				}
				begin := time.Now()
				cordon(t, op, "b")
				time.Sleep(time.Hour)
				drainMember(t, op, "b") // in the place of the cordon
				time.Sleep(time.Hour)
				cordon(t, op.Namespace("other"), "x")
				got := cordonsIn(t, op)
				if len(got) != 2 || got[0].ID != "b" || !got[0].Drain || !got[0].Current || !got[0].Until.IsZero() || got[0].By != "ada" || got[0].Reason != "new kernel" ||
					got[1].Drain || got[1].Current || got[1].EndedBy != "ada" || !got[1].Until.Equal(got[0].From) || got[1].Until.Sub(got[1].From).Round(time.Second) != time.Hour || got[1].From.Sub(begin).Abs() > time.Second {
					t.Fatalf("%+v", got)
				}
				if ended, err := op.Uncordon(t.Context(), elector.Cordon{ID: "b", By: "bob", Reason: "new kernel runs"}); err != nil || !ended {
					t.Fatalf("%t, %v", ended, err)
				}
				// No trace of a cordon that was not there.
				if ended, err := op.Uncordon(t.Context(), elector.Cordon{ID: "b", By: "bob"}); err != nil || ended {
					t.Fatalf("%t, %v", ended, err)
				}
				got = cordonsIn(t, op)
				if len(got) != 2 || got[0].Current || got[0].EndedBy != "bob" || got[0].EndReason != "new kernel runs" || got[0].Until.Sub(got[0].From).Round(time.Second) != time.Hour {
					t.Fatalf("%+v", got)
				}
				all, err := electionOf(op, "orders").Timeline(t.Context(), 10, time.Now().Add(-time.Minute))
				if err != nil || len(all.Cordons) != 1 {
					t.Errorf("since a minute ago: %+v, %v", all.Cordons, err)
				}
				all, err = electionOf(op, "orders").Timeline(t.Context(), 10, time.Now().Add(time.Minute))
				if err != nil || len(all.Cordons) != 0 {
					t.Errorf("since later: %+v, %v", all.Cordons, err)
				}
			})
		})
	}
}

// The stream of the cordons is that of no election.
func TestCordonHistoryIsNoElection(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		cordon(t, op, "b")
		used, idle, err := op.ElectionsByUse(t.Context())
		if len(used)+len(idle) != 0 || err != nil {
			t.Errorf("%q, %q, %v", used, idle, err)
		}
		for _, nd := range c.Nodes {
			if got := nd.Server().Keys(); !slices.Equal(got, []string{cordonsKey, cordonHistoryKey}) {
				t.Errorf("%q", got)
			}
			_ = nd.Server().Set("mandate:{}:fence", "7") // not even then
		}
		if all, err := op.Elections(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("%q, %v", all, err)
		}
	})
}

// A cordon that the history lacks, or of which it lacks the end, is shown as the nodes have it: an
// older mandate, or one without the right, has made it or ended it.
func TestHistoryShowsTheCordonsInForce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		cordon(t, op, "b")
		cordon(t, op, "d")
		time.Sleep(time.Minute)
		for _, nd := range c.Nodes {
			nd.Server().HDel(cordonsKey, "b")
			nd.Server().HSet(cordonsKey, "e", `{"by":"eve","since":"2000-01-01T00:00:00Z","drain":true}`)
			_, _ = nd.Server().XAdd(cordonHistoryKey, "*", []string{"event", "ask bob", "other", "field"})
			_, _ = nd.Server().XAdd(cordonHistoryKey, "*", []string{"other", "field"})
		}
		got := cordonsIn(t, op)
		is := map[string]string{}
		for _, r := range got {
			is[r.ID] = fmt.Sprintf("%s %t %t %t", r.By, r.Drain, r.Current, r.Until.IsZero())
		}
		if len(got) != 3 || is["b"] != "ada false false true" || is["d"] != "ada false true true" || is["e"] != "eve true true true" {
			t.Errorf("%+v", got)
		}
		c.Nodes[0].Set(down)
		if again := cordonsIn(t, op); !slices.Equal(got, again) {
			t.Errorf("with a node down: %+v", again)
		}
	})
}

// A cordon works without its record, and who made it learns that there is none.
func TestUnrecordedCordon(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		op := c.Quorum("operator")
		refuses := func(nodes ...int) {
			for _, i := range nodes {
				c.Nodes[i].Server().Del(cordonHistoryKey)
				_ = c.Nodes[i].Server().Set(cordonHistoryKey, "hello")
			}
		}
		refuses(0)
		cordon(t, op, "b") // a majority has recorded it
		refuses(1)
		err := op.Cordon(t.Context(), elector.Cordon{ID: "d"})
		var failed *elector.QuorumError
		if !errors.Is(err, elector.ErrNotRecorded) || errors.Is(err, elector.ErrUnreachable) || !errors.As(err, &failed) || len(failed.Nodes) != 2 || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%v", err)
		}
		d := c.Start("d")
		d.Quiet(3 * shortLease)
		if ended, err := op.Uncordon(t.Context(), elector.Cordon{ID: "d"}); !ended || !errors.Is(err, elector.ErrNotRecorded) {
			t.Errorf("%t, %v", ended, err)
		}
		d.Elected(time.Second)
		c.Nodes[2].Set(down)
		if err := op.Cordon(t.Context(), elector.Cordon{ID: "b"}); err == nil || errors.Is(err, elector.ErrNotRecorded) || errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "not recorded in the history") {
			t.Errorf("one node down: %v", err)
		}
		c.Heal()
		// The rest of the time line is there.
		got, err := electionOf(op, "orders").Timeline(t.Context(), 10, time.Time{})
		if err == nil || errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "the history of the cordons, mandate:{}:history, could not be read") || len(got.Terms) != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		if len(got.Cordons) == 0 || got.Cordons[0].ID != "b" || !got.Cordons[0].Current {
			t.Errorf("%+v", got.Cordons)
		}
		for _, nd := range c.Nodes[:2] {
			nd.Server().Del(cordonHistoryKey)
			nd.Server().Del(cordonsKey)
			_ = nd.Server().Set(cordonsKey, "hello")
		}
		got, err = electionOf(op, "orders").Timeline(t.Context(), 10, time.Time{})
		if err == nil || errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "which cordons are in force") || len(got.Terms) != 2 || !slices.ContainsFunc(got.Cordons, func(r elector.CordonRecord) bool { return r.ID == "b" && r.Current }) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
