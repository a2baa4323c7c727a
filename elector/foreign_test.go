package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// Somebody else's value, or another type, stands under the lock's key, with or without
// an end: no candidate can lead until it is gone, so whoever looks is told of it, and nobody
// is told of a leader.
func TestStrangeLockIsNamed(t *testing.T) {
	for kind, shown := range map[string]string{
		"batch job 7\x1b[2J": `"batch job 7\x1b[2J"`, "": `""`, "a/b/c": `"a/b/c"`, "a/A/1 n=x": "n=x", "a list": "another type",
	} {
		for _, ends := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q/ends=%v", kind, ends), func(t *testing.T) {
				onAll(t, func(t *testing.T, c *cluster) { strangeLock(t, c, kind, shown, ends) })
			})
		}
	}
}

func strangeLock(t *testing.T, c *cluster, kind, shown string, ends bool) {
	c.Seed() // an election that has worked: only then is it ridden, and not permanent
	a := c.Start("a")
	a.Elected(3 * shortLease)
	for _, n := range c.Nodes {
		n.Server().Del(lockKey)
		if kind == "a list" {
			_, _ = n.Server().Push(lockKey, "x")
		} else {
			_ = n.Server().Set(lockKey, kind)
		}
		if ends {
			n.Server().SetTTL(lockKey, time.Hour)
		}
	}
	time.Sleep(3 * shortLease)
	if a.IsLeader() {
		t.Fatal("leads")
	}
	if err := a.Check(); err == nil || !strings.Contains(err.Error(), lockKey) {
		t.Errorf("Check: %v", err)
	}
	if lines := a.Log.Lines(lockKey, "cannot campaign"); len(lines) == 0 || len(lines) > 2 {
		t.Errorf("logged %d times", len(lines))
	}
	st, err := electionOf(c.Quorum("status"), "orders").Status(t.Context())
	if err != nil || st.Leader != nil || !strings.Contains(st.Blocked, lockKey) || !strings.Contains(st.Blocked, shown) {
		t.Errorf("status: %+v, %v", st, err)
	}
	for _, n := range st.Nodes {
		if !n.Reachable || n.Holder != "" || !strings.Contains(n.Foreign, shown) || (n.LeaseLeft > 0) != ends {
			t.Errorf("status of a node: %+v", n)
		}
	}
	if l, err := a.Election().Leader(t.Context()); !errors.Is(err, elector.ErrNoLeader) || !strings.Contains(err.Error(), lockKey) {
		t.Errorf("Leader: %+v, %v", l, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if first := <-observe(ctx, a.Election()); first.Kind != elector.EventVacant {
		t.Errorf("observed %+v", first)
	}
	stop()
	found, err := doctor.Examine(t.Context(), c.Quorum("doctor"), doctor.Config{Election: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	named, leader := 0, false
	for _, f := range found {
		if f.Check == "lock" && f.Level == doctor.LevelFail && strings.Contains(f.Found, lockKey) && strings.Contains(f.Found, shown) && strings.Contains(f.Advice, "DEL") {
			named++
		}
		leader = leader || f.Check == "leader" && f.Level == doctor.LevelFail && strings.Contains(f.Found, "no leader, and none can be elected")
	}
	if named != len(c.Nodes) || !leader {
		t.Errorf("doctor names it on %d of %d nodes: %v", named, len(c.Nodes), found)
	}
	for _, n := range c.Nodes {
		n.Server().Del(lockKey)
	}
	a.Elected(2 * shortLease)
}

// Reservations and markers that no candidate wrote, and that would block an election for
// much longer than ours do.
func TestForeignReservationsAndMarkersLapse(t *testing.T) {
	for _, key := range []string{"next", "new"} {
		for name, ttl := range map[string]time.Duration{"endless": 0, "a year": 365 * 24 * time.Hour} {
			t.Run(key+"/"+name, func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, c *cluster) {
					term := c.Seed()
					for _, nd := range c.Nodes[:2] { // of a majority, but not of all
						k := "mandate:{orders}:" + key
						if err := nd.Server().Set(k, "!ghost"); err != nil {
							t.Fatal(err)
						}
						if ttl > 0 {
							nd.Server().SetTTL(k, ttl)
						}
					}
					next := c.Start("a").Elected(2*shortLease + time.Second)
					if next.Token() <= term.Token() {
						t.Errorf("token %d after %d", next.Token(), term.Token())
					}
				})
			})
		}
	}
}

// Regression: a foreign lock on one node of three kept every candidate from leading.
func TestForeignLockOnAMinority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		if err := c.Nodes[0].Server().Set(lockKey, "maintenance by joe"); err != nil {
			t.Fatal(err)
		}
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(3 * shortLease)
		if !term.Valid() {
			t.Error(term.Err())
		}
		if err := a.Check(); err != nil {
			t.Error(err)
		}
		if lines := a.Log.Lines("maintenance by joe"); len(lines) != 1 {
			t.Errorf("logged %d times", len(lines))
		}
	})
}

// Regression: the lock of a leader that died stayed for as long as the clock of its node had
// been wrong.
func TestLockThatOutlivesItsLeaseIsTaken(t *testing.T) {
	for _, n := range []int{1, 3} {
		for name, ttl := range map[string]time.Duration{"endless": 0, "a year": 365 * 24 * time.Hour} {
			t.Run(fmt.Sprintf("n=%d/%s", n, name), func(t *testing.T) {
				bubble(t, n, func(t *testing.T, c *cluster) {
					a := c.Start("a")
					term := a.Elected(3 * shortLease)
					c.Each(cut, "a")
					for _, nd := range c.Nodes {
						value, _ := nd.Server().Get(lockKey)
						if err := nd.Server().Set(lockKey, value); err != nil {
							t.Fatal(err)
						}
						if ttl > 0 {
							nd.Server().SetTTL(lockKey, ttl)
						}
					}
					next := c.Start("b").Elected(shortLease + 100*time.Millisecond)
					if next.Token() <= term.Token() || term.Valid() {
						t.Errorf("token %d after %d, %v", next.Token(), term.Token(), term.Err())
					}
				})
			})
		}
	}
}
