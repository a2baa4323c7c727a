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

// Regression: Campaign returned a term before IsLeader and Term knew of it.
func TestIsLeaderRightAfterCampaign(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		for range 20 {
			term, err := a.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leads, own := a.IsLeader(), a.Term()
			if err := term.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !leads || own != term {
				t.Fatalf("Campaign returned, IsLeader is %v and Term is %v", leads, own)
			}
		}
	})
}

// Regression: an operator who asked for a step-down took the lock away under the running
// work of a campaigned term. Only Term.Close reports that the work has stopped.
func TestStepDownWaitsForTheWorkOfCampaign(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := c.Start("b")
		b.Quiet(shortLease)
		op := electionOf(c.Quorum("operator"), "orders")
		go func() { _, _ = op.StepDown(within(t, time.Minute), "") }()
		wantReason(t, term, 5*time.Second, elector.ReasonResigned)
		b.Quiet(shortLease / 2) // the work takes so long to stop
		if err := term.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.Elected(time.Second)
	})
}

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
