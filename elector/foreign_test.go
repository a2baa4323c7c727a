package elector_test

import (
	"testing"
	"time"
)

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
