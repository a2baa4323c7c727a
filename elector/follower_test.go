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

// The followers of a process claim together when the leases end that another process has renewed together: each about once
// per lease, and many by one call.
func TestFollowersClaimTogether(t *testing.T) {
	const elections = 40
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", nodes), func(t *testing.T) {
			bubble(t, nodes, func(t *testing.T, c *cluster) {
				leading, following := c.Quorum("a"), c.Quorum("b")
				var leaders, followers []*candidate
				begin := func(q *elector.Quorum, i int) *candidate {
					return makeCandidate(t, q, "candidate", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }).Begin(nil)
				}
				for i := range elections {
					leaders = append(leaders, begin(leading, i))
					leaders[i].Elected(2 * shortLease)
				}
				for i := range elections {
					followers = append(followers, begin(following, i))
				}
				time.Sleep(3 * shortLease) // they have met the leaders when those renew together
				c.Nodes[0].Took()
				time.Sleep(3 * shortLease)
				calls, claims := 0, 0
				for _, call := range c.Nodes[0].Took() {
					if call.Script == "claim" {
						calls, claims = calls+1, claims+keysOf(t, call)/7
					}
				}
				if claims < 2*elections || claims > 4*elections {
					t.Errorf("%d followers claim %d times in three leases", elections, claims)
				}
				if calls > claims/4 {
					t.Errorf("%d calls for %d claims", calls, claims)
				}
				for i := range elections { // and all of them are awake enough to lead
					leaders[i].Shutdown()
					followers[i].Elected(shortLease)
				}
			})
		})
	}
}

// keysOf is how many keys a call of a script names.
func keysOf(t *testing.T, c call) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(c.Args[0], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A claim that a follower makes at the end of a dead leader's lease is won while its own probe has begun to fail: it does not
// lead, and gives back the lock at once, not when that has lapsed.
func TestClaimThatIsNotWantedAnyMore(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", nodes), func(t *testing.T) {
			bubble(t, nodes, func(t *testing.T, c *cluster) {
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
		})
	}
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

// A follower that receives no messages learns of a new leader by its own claims.
func TestFollowersClaimShowsANewLeader(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Nodes[0].Deny("publish")
		a := c.Start("a")
		a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(2 * shortLease)
		a.Shutdown()
		c.Start("c").Elected(shortLease / 10) // before b, which has not heard of the release
		b.Quiet(2 * shortLease)
		if l, ok := b.LastLeader(); !ok || l.Candidate != "c" {
			t.Errorf("%+v, %t", l, ok)
		}
	})
}
