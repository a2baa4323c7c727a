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
