package elector_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// A claim that a follower makes at the end of a dead leader's lease is won while its own probe has begun to fail: it does not
// lead, and gives back the lock at once, not when that has lapsed.
func TestClaimThatIsNotWantedAnyMore(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var sick atomic.Bool
		a := c.Start("a")
		token := fmt.Sprint(a.Elected(3 * shortLease).Token())
		b := c.Start("b", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error {
				if sick.Load() {
					return errors.New("sick")
				}
				return nil
			})
			cfg.ProbeSettings = health.Settings{Interval: 10 * time.Millisecond, Timeout: 10 * time.Millisecond, Failures: 1}
		})
		b.Quiet(2 * shortLease)
		c.Each(cut, "a")
		c.Each(fault{Delay: shortLease / 20}, "b")
		for _, n := range c.Nodes {
			n.On(func(call call, _ *server.Peer) bool {
				if call.Script == "claim" && call.From("b") && !n.Server().Exists(lockKey) {
					sick.Store(true) // it is won, and the answer still on its way
				}
				return false
			})
		}
		for !sick.Load() {
			time.Sleep(tick)
		}
		b.Quiet(shortLease / 2)
		if fence, _ := c.Nodes[0].Server().Get(fenceKey); fence == token {
			t.Fatal("its claim was not won: nothing is tested")
		}
		if locks := c.Locks(); locks > 0 {
			t.Errorf("%d nodes hold the lock for a candidate that can't lead", locks)
		}
	})
}

// The lease of a term counts from the moment before its claim was sent, also of a claim that travelled with others.
func TestLeaseCountsFromTheFollowersClaim(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		const slow = shortLease / 40
		a := c.Start("a")
		full := a.Elected(3 * shortLease).Left()
		b := c.Start("b")
		b.Quiet(2 * shortLease)
		c.Each(cut, "a")
		c.Each(fault{Delay: slow}, "b")
		if left := b.Elected(2 * shortLease).Left(); left > full-slow {
			t.Errorf("%v are left at the begin of a term whose claim took %v, and %v of one whose claim took no time", left, slow, full)
		}
	})
}
