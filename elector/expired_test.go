package elector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// A term that expired tells which of the causes it was: whoever is on call looks at the nodes,
// at the user's rights, or at the machine.
func TestExpiredNamesTheCause(t *testing.T) {
	const denied = "NOPERM this user has no permissions to run the 'pexpire' command"
	for name, w := range map[string]struct {
		begin func(*cluster)
		want  string
		is    error
	}{
		"two of three are down": {func(c *cluster) {
			c.Nodes[1].Set(down)
			c.Nodes[2].Set(frozen)
		}, "2 of 3 nodes did not answer for 7.4s (127.0.0.1:7002: connection refused, 127.0.0.1:7003: no answer in time)", elector.ErrUnreachable},
		"a right is missing": {func(c *cluster) {
			for _, n := range c.Nodes {
				n.RefuseWith(denied)
			}
		}, "refused for 7.4s by 3 of 3 nodes (127.0.0.1:7001, 127.0.0.1:7002, 127.0.0.1:7003): " + denied, elector.ErrDenied},
		"one is down, one refuses": {func(c *cluster) {
			c.Nodes[0].Set(down)
			c.Nodes[2].RefuseWith("OOM command not allowed when used memory > 'maxmemory'. script: 85e6f050415688760829a79967954e4b2ea9d194, on @user_script:12.")
		}, "1 of 3 nodes did not answer for 7.4s (127.0.0.1:7001: connection refused); " +
			"refused for 7.4s by 1 of 3 nodes (127.0.0.1:7003): OOM command not allowed when used memory > 'maxmemory'.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.Seed()
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				time.Sleep(2 * shortLease)
				w.begin(c)
				ended := wantReason(t, term, shortLease, elector.ReasonExpired)
				if why := ended.Err.Error(); why != w.want && !strings.HasPrefix(why, w.want+" (") {
					t.Error(why)
				}
				for _, kind := range []error{elector.ErrUnreachable, elector.ErrDenied} {
					if want := errors.Is(w.is, kind); errors.Is(ended, kind) != want {
						t.Errorf("is %v: %v", kind, errors.Is(ended, kind))
					}
				}
				for _, n := range c.Nodes {
					n.RefuseWith("")
				}
				c.Heal()
			})
		})
	}
}

// A process that was stopped reports for how long, and not that nodes did not answer; of one
// that was stopped while the nodes were away already they are the cause.
func TestExpiredBySuspension(t *testing.T) {
	for name, w := range map[string]struct {
		away time.Duration // how long before it the nodes went away; 0: they did not
		want string
	}{
		"all is well":         {0, "this process was suspended for"},
		"the nodes were away": {5 * time.Second, "did not answer for"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.Seed()
				warp := new(lease.Warp)
				ctx := lease.WithClock(context.Background(), lease.NewClock(warp))
				a := makeCandidate(t, c.Quorum("a"), "a").BeginIn(ctx, nil)
				term := a.Elected(3 * shortLease)
				time.Sleep(2*shortLease + w.away)
				if w.away > 0 {
					c.Each(down)
					time.Sleep(w.away)
				}
				warp.Wall.Add(int64(9 * time.Second)) // a machine that slept
				warp.Boot.Add(int64(9 * time.Second))
				ended := wantReason(t, term, shortLease, elector.ReasonExpired)
				if !strings.HasPrefix(ended.Err.Error(), w.want) && !strings.Contains(ended.Err.Error(), w.want) {
					t.Errorf("%v", ended)
				}
				c.Heal()
			})
		})
	}
}
