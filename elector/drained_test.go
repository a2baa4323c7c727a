package elector_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

func drainMember(t *testing.T, q *elector.Quorum, id string) {
	t.Helper()
	if err := q.Cordon(t.Context(), elector.Cordon{ID: id, By: "ada", Reason: "new kernel", Drain: true}); err != nil {
		t.Fatal(err)
	}
}

// A drained leader hands over as soon as its cordon is known, is not elected again, also after
// a restart, and campaigns once it is uncordoned.
func TestDrainedLeaderHandsOver(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				all, term, op := trio(t, c)
				drainMember(t, op, "a")
				time.Sleep(shortLease / 5)
				ended := wantReason(t, term, 0, elector.ReasonHandover)
				if !strings.Contains(ended.Error(), "drained by ada since") || !strings.Contains(ended.Error(), "new kernel") {
					t.Errorf("%v", ended)
				}
				first(t, 100*time.Millisecond, all[1], all[2])
				all[0].Shutdown()
				a := c.Start("a")
				all[1].Shutdown()
				all[2].Shutdown()
				a.Quiet(3 * shortLease)
				uncordon(t, op, "a")
				a.Elected(100 * time.Millisecond)
			})
		})
	}
}

// The last leader stays: no other candidate is there, or it can't lead. It hands over when one can.
func TestLastLeaderIsNotDrained(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		op := c.Quorum("operator")
		cordon(t, op, "b")
		b := c.Start("b")
		time.Sleep(shortLease)
		drainMember(t, op, "a")
		time.Sleep(12 * time.Second)
		if !term.Valid() {
			t.Fatalf("no candidate leads: %v", term.Err())
		}
		if n := len(a.Log.Lines("drained, but remains leader", "b is cordoned")); n != 1 {
			t.Errorf("%d lines\n%s", n, a.Log.Lines())
		}
		if n := len(a.Log.Lines("drained, but still remains leader")); n != 1 {
			t.Errorf("%d reminders\n%s", n, a.Log.Lines())
		}
		uncordon(t, op, "b")
		b.Elected(2 * shortLease)
		wantReason(t, term, 0, elector.ReasonHandover)
	})
}

// Of several that are drained at once none relies on another that has not heard of it yet.
func TestDrainOfAllKeepsALeader(t *testing.T) {
	for apart := range 20 {
		bubble(t, 1, func(t *testing.T, c *cluster) {
			a := c.Start("a")
			term := a.Elected(3 * shortLease)
			op := c.Quorum("operator")
			c.Start("b")
			time.Sleep(time.Duration(apart) * 5 * time.Millisecond)
			drainMember(t, op, "b")
			drainMember(t, op, "a")
			time.Sleep(5 * shortLease)
			if !term.Valid() {
				t.Errorf("%d: %v", apart, term.Err())
			}
		})
	}
}

// A drain that is undone while the leader stays ends nothing.
func TestUndoneDrainEndsNoTerm(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		op := c.Quorum("operator")
		drainMember(t, op, "a")
		time.Sleep(shortLease)
		uncordon(t, op, "a")
		time.Sleep(shortLease)
		c.Start("b")
		time.Sleep(5 * shortLease)
		if !term.Valid() {
			t.Errorf("%v", term.Err())
		}
	})
}

// While the election is paused no other candidate would be elected.
func TestDrainedLeaderStaysDuringAPause(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c)
		el := electionOf(op, "orders")
		if err := el.Pause(t.Context(), time.Hour, "migration"); err != nil {
			t.Fatal(err)
		}
		drainMember(t, op, "a")
		time.Sleep(5 * shortLease)
		if !term.Valid() {
			t.Fatalf("%v", term.Err())
		}
		if err := el.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		first(t, 2*shortLease, all[1], all[2])
	})
}
