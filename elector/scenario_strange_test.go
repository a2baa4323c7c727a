package elector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Somebody else's value, or another type, stands under the lock's key, and has no end:
// nobody can lead until somebody removes it, so whoever looks is told of it.
func TestStrangeLockIsNamed(t *testing.T) {
	for _, kind := range []string{"string", "list"} {
		t.Run(kind, func(t *testing.T) {
			onAll(t, func(t *testing.T, c *cluster) {
				c.seed() // an election that has worked: only then is it ridden, and not permanent
				a := c.start("a")
				a.elected(3 * shortLease)
				for _, n := range c.nodes {
					n.server().Del(lockKey)
					if kind == "string" {
						_ = n.server().Set(lockKey, "batch job 7")
					} else {
						_, _ = n.server().Push(lockKey, "x")
					}
				}
				time.Sleep(3 * shortLease)
				if a.IsLeader() {
					t.Fatal("leads")
				}
				if err := a.Check(); err == nil || !strings.Contains(err.Error(), lockKey) {
					t.Errorf("Check: %v", err)
				}
				if lines := a.log.lines(lockKey, "unable to take part"); len(lines) == 0 || len(lines) > 2 {
					t.Errorf("logged %d times", len(lines))
				}
				found, err := c.quorum("doctor").Diagnose(t.Context(), "", "orders", 0)
				if err != nil {
					t.Fatal(err)
				}
				named := 0
				for _, f := range found {
					if f.Check == "lock" && f.Level == elector.Fail && strings.Contains(f.Found, lockKey) && strings.Contains(f.Advice, "DEL") {
						named++
					}
				}
				if named != len(c.nodes) {
					t.Errorf("doctor names it on %d of %d nodes: %v", named, len(c.nodes), found)
				}
				for _, n := range c.nodes {
					n.server().Del(lockKey)
				}
				a.elected(2 * shortLease)
			})
		})
	}
}
