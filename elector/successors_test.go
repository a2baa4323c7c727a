package elector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Regression: on a Redis without memory the roll call shows able candidates, and whoever made
// the leader step down then left the election without one: the lock can be given back there, and
// not taken.
func TestSuccessorsOnNodesThatRefuseWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes   int
		fault   func(c *cluster)
		refused string // "": b could lead
	}{
		"one node, full":        {1, func(c *cluster) { c.Nodes[0].Fill(true) }, "1 of 1 Redis nodes refuse writes (127.0.0.1:7001: OOM command not allowed"},
		"a majority is full":    {3, func(c *cluster) { c.Nodes[0].Fill(true); c.Nodes[2].Fill(true) }, "2 of 3 Redis nodes refuse writes (127.0.0.1:7001: OOM"},
		"a minority is full":    {3, func(c *cluster) { c.Nodes[0].Fill(true) }, ""},
		"one full, one down":    {3, func(c *cluster) { c.Nodes[0].Fill(true); c.Nodes[1].Set(down, "operator") }, "1 of 3 Redis nodes refuse writes (127.0.0.1:7001: OOM"},
		"one hangs":             {3, func(c *cluster) { c.Nodes[1].Set(frozen, "operator") }, ""},
		"one full, one hangs":   {3, func(c *cluster) { c.Nodes[0].Fill(true); c.Nodes[1].Set(frozen, "operator") }, "1 of 3 Redis nodes refuse writes"},
		"this user may not SET": {1, func(c *cluster) { c.Nodes[0].Deny("set") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tc.nodes, func(t *testing.T, c *cluster) {
				_, b, term := pair(t, c)
				el := electionOf(c.Quorum("operator"), "orders")
				tc.fault(c)
				able, err := el.Successors(within(t, time.Minute))
				if tc.refused == "" {
					if err != nil || len(able) != 1 || able[0].ID != "b" {
						t.Errorf("%+v, %v", able, err)
					}
					return
				}
				check := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "no other leader could be elected: "+tc.refused) {
						t.Errorf("%s: %v", what, err)
					}
				}
				check("successors", err)
				_, err = el.Transfer(within(t, time.Minute), "b")
				check("transfer", err)
				b.Quiet(shortLease)
				if !term.Valid() {
					t.Errorf("the leader stepped down: %v", term.Err())
				}
			})
		})
	}
}

func TestSuccessors(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		el := electionOf(c.Quorum("operator"), "orders")
		refused := func(with string) {
			t.Helper()
			if able, err := el.Successors(within(t, time.Minute)); len(able) > 0 || !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), with) {
				t.Errorf("%+v, %v; want a refusal with %q", able, err, with)
			}
		}
		if able, err := el.Successors(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("without a leader: %+v, %v", able, err)
		}
		a := c.Start("a")
		a.Elected(atOnce)
		refused("there is no other candidate")
		w := &ward{err: errors.New("the queue is not reachable")}
		b := c.Start("b", probed(w))
		b.Quiet(5 * time.Second) // three failed probes
		refused("b is unhealthy: the queue is not reachable")
		c.Start("c").Quiet(shortLease)
		if able, err := el.Successors(t.Context()); err != nil || len(able) != 1 || able[0].ID != "c" {
			t.Errorf("%+v, %v", able, err)
		}
		if err := el.Pause(t.Context(), 0, "migration"); err != nil {
			t.Fatal(err)
		}
		refused("the election is paused (migration)")
	})
}
