package elector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// One hung node neither holds up who leads, nor makes what is left look older
// than it is, nor hides since when.
func TestStatusWithAHungNode(t *testing.T) {
	for hung := range 3 {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			_, term := leading(c, "a")
			time.Sleep(shortLease)
			c.Nodes[hung].Set(frozen)
			op := c.Quorum("operator")
			least := shortLease
			for look := range 40 {
				began := time.Now()
				st, err := electionOf(op, "orders").Status(t.Context())
				if err != nil || st.Leader == nil || st.Leader.Token != term.Token() {
					t.Fatalf("%+v, %v", st, err)
				}
				if took := time.Since(began); took > 300*time.Millisecond {
					t.Errorf("who leads took %v although two nodes have answered", took)
				}
				if st.Leader.Since.IsZero() {
					t.Error("the healthy nodes know since when")
				}
				n := st.Nodes[hung]
				if n.Reachable || !strings.Contains(n.Error, "no answer in time") || look == 0 && n.RTT < 250*time.Millisecond { // who has waited in vain is in no hurry to do so again
					t.Errorf("the hung node: %+v", n)
				}
				// What is left is as of now, up to Redis' milliseconds.
				if end := c.Nodes[(hung+1)%3].Server().TTL(lockKey); st.Leader.LeaseLeft > end+time.Millisecond {
					t.Errorf("%v are left, and the lock has %v", st.Leader.LeaseLeft, end)
				}
				least = min(least, st.Leader.LeaseLeft)
				time.Sleep(shortLease / 7)
			}
			if least < shortLease/3 {
				t.Errorf("the lease that is renewed every quarter ran down to %v of %v", least, shortLease)
			}
		})
	}
}

// Regression: a leader whose lock was not on all nodes yet was reported as vanished as soon as one of
// the others could not be read.
func TestWhoLeadsDependsOnANodeThatIsDown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		term := c.Start("a").Elected(3 * shortLease)
		time.Sleep(shortLease)
		orders := electionOf(c.Quorum("operator"), "orders")
		c.Nodes[0].Server().Del(lockKey) // until the next renewal
		c.Nodes[1].Set(down)
		st, err := orders.Status(t.Context())
		if err != nil || st.Leader != nil || st.MayLead == nil || st.MayLead.Token != term.Token() {
			t.Errorf("%+v, %v", st, err)
		}
		if l, err := orders.Leader(t.Context()); !errors.Is(err, elector.ErrUnreachable) || errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("the leader is %+v, %v", l, err)
		}
		if terms, err := orders.History(t.Context(), 1); err != nil || len(terms) != 1 || terms[0].Reason != "" || terms[0].Current {
			t.Errorf("%+v, %v", terms, err)
		}
		_, refused := orders.Successors(t.Context())
		_, _, failed := orders.StepDown(t.Context(), "")
		for what, err := range map[string]error{"successors": refused, "step-down": failed} {
			if !errors.Is(err, elector.ErrUnreachable) || errors.Is(err, elector.ErrNoLeader) {
				t.Errorf("%s: %v", what, err)
			}
		}
		events := observe(t.Context(), orders)
		if ev, _, ok := testcluster.Await(events, shortLease); !ok || ev.Kind != elector.EventElected {
			t.Errorf("the first event after the next renewal is %+v", ev)
		}
		c.Heal()
	})
}

func second[T any](_ T, err error) error { return err }

// Without a majority the bounds are those of the limit, and of the caller.
func TestStatusBounds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Nodes[0].Set(frozen)
		c.Nodes[1].Set(frozen)
		op := c.Quorum("operator")
		for limit, want := range map[time.Duration]time.Duration{time.Minute: 1500 * time.Millisecond, 100 * time.Millisecond: 100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			_, err := electionOf(op, "orders").Status(ctx)
			if took := time.Since(began); err == nil || took < want || took > want+10*time.Millisecond {
				t.Errorf("within %v: %v after %v", limit, err, took)
			}
			cancel()
		}
	})
}
