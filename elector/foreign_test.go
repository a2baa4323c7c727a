package elector_test

import (
	"testing"
	"time"
)

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
	for name, ttl := range map[string]time.Duration{"endless": 0, "a year": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
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
