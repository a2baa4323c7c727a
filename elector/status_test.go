package elector_test

import (
	"context"
	"strings"
	"testing"
	"time"
)

// One hung node neither holds up who leads, nor makes what is left look older
// than it is, nor hides since when.
func TestStatusWithAHungNode(t *testing.T) {
	for hung := range 3 {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			a := c.Start("a")
			term := a.Elected(3 * shortLease)
			time.Sleep(shortLease)
			c.Nodes[hung].Set(frozen)
			op := c.Quorum("operator")
			least := shortLease
			for range 40 {
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
				if n.Reachable || !strings.Contains(n.Error, "no answer in time") || n.RTT < 250*time.Millisecond {
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

// While the answers do not decide who leads, the last one is waited for.
func TestStatusWaitsForTheNodeThatDecides(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease / 10) // and the next renewal, which puts the lock back, is not soon
		c.Nodes[0].Server().Del(lockKey)
		c.Nodes[1].Set(fault{Delay: 200 * time.Millisecond}, "operator")
		st, err := electionOf(c.Quorum("operator"), "orders").Status(t.Context())
		if err != nil || st.Leader == nil || st.Leader.Token != term.Token() {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

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

// Regression: a node that hangs was reported in go-redis' words, an "i/o timeout" between
// two ports, and not as context.DeadlineExceeded is.
func TestHungNodeIsNoAnswerInTime(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.Quorum("a")
		if _, err := electionOf(q, "orders").Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Nodes[0].Set(frozen)
		if _, err := electionOf(q, "orders").Status(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer in time") {
			t.Errorf("got %v", err)
		}
	})
}

// A name that only differs in a letter must not be taken for an election.
func TestStatusTraced(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		traced := func(name string) bool {
			t.Helper()
			st, err := electionOf(op, name).Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return st.Traced()
		}
		if traced("orders") {
			t.Error("a trace of an election that has never been")
		}
		a := c.Start("a")
		time.Sleep(shortLease / 2) // it has claimed, and the nodes, which are new, abstain
		if !traced("orders") {
			t.Error("no trace of a candidate that waits for its first vote")
		}
		a.Elected(3 * shortLease)
		a.Shutdown()
		if !traced("orders") || traced("order") {
			t.Errorf("an election that was led: %v; another name: %v", traced("orders"), traced("order"))
		}
		_ = c.Nodes[0].Server().Set("mandate:{job}:lock", "another program's")
		if !traced("job") {
			t.Error("no trace of a lock that no candidate wrote")
		}
		if err := electionOf(op, "night").Pause(t.Context(), 0, ""); err != nil || !traced("night") {
			t.Errorf("no trace of an election that is paused before its first leader: %v", err)
		}
	})
}
