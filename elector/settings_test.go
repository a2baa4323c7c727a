package elector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// The application holds every connection of its own client.
func TestExhaustedPoolOfTheApplicationCostsNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		app := c.client("app", 0)
		defer app.Close()
		app.Options().PoolSize = 1
		app = redis.NewClient(app.Options())
		defer app.Close()
		held := app.Conn()
		defer held.Close()
		if err := held.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		q, err := elector.NewQuorum(app)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		a := makeCandidate(t, q, "a").run(nil)
		term := a.elected(time.Second)
		time.Sleep(10 * shortLease)
		if !term.Valid() {
			t.Errorf("lost: %v", term.Err())
		}
		if lines := a.log.lines("WARN"); len(lines) > 0 {
			t.Errorf("%q", lines)
		}
	})
}

func TestRefusesToLeadUnderAnotherLease(t *testing.T) {
	for name, other := range map[string]time.Duration{"shorter": shortLease / 2, "longer": 2 * shortLease} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.start("a")
				term := a.elected(3 * shortLease)
				b := c.start("b", func(cfg *elector.Config) { cfg.Lease = other })
				b.quiet(10 * shortLease)
				err := b.Check()
				if err == nil || !strings.Contains(err.Error(), "refusing to lead") || !strings.Contains(err.Error(), other.String()) || !strings.Contains(err.Error(), shortLease.String()) {
					t.Errorf("Check: %v", err)
				}
				if lines := b.log.lines("refusing to lead"); len(lines) != 1 {
					t.Errorf("said %d times", len(lines))
				}
				if !term.Valid() || a.Check() != nil {
					t.Errorf("the leader suffered: %v, %v", term.Err(), a.Check())
				}
			})
		})
	}
}
