package elector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// A campaign that ends without a term says why: a program of cron must distinguish that another host runs the job from a
// Redis that is away, on which no host runs it. TryCampaign does not wait for the end of another leader.
func TestCampaignSaysWhyNotElected(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := makeCandidate(t, c.Quorum("a"), "a"), makeCandidate(t, c.Quorum("b"), "b")
		term := campaigned(t, a)
		wants := func(campaign func(context.Context) (*elector.Term, error), took time.Duration, text string, want, not error) {
			t.Helper()
			began := time.Now()
			_, err := campaign(within(t, shortLease))
			if !errors.Is(err, want) || errors.Is(err, not) || !strings.Contains(fmt.Sprint(err), text) || time.Since(began) > took+shortLease/8 ||
				errors.Is(err, context.DeadlineExceeded) != (took == shortLease) {
				t.Errorf("%v, after %v", err, time.Since(began))
			}
		}
		for range 2 {
			wants(b.TryCampaign, shortLease/5, "a leads", elector.ErrNotLeader, elector.ErrUnreachable)
			wants(b.Campaign, shortLease, "deadline exceeded: a leads", elector.ErrNotLeader, elector.ErrUnreachable)
		}
		for _, away := range []fault{frozen, down, cut} {
			c.Each(away, "b")
			_, err := b.Campaign(within(t, time.Millisecond)) // ends before the first answer
			if !errors.Is(err, elector.ErrUnreachable) {
				t.Errorf("after a millisecond: %v", err)
			}
			wants(b.TryCampaign, shortLease, "exceeded: no majority", elector.ErrUnreachable, elector.ErrNotLeader)
			wants(b.Campaign, shortLease, "exceeded: no majority", elector.ErrUnreachable, elector.ErrNotLeader)
			c.Each(fault{}, "b")
			wants(b.TryCampaign, shortLease/2, "a leads", elector.ErrNotLeader, elector.ErrUnreachable)
		}
		for _, n := range c.Nodes {
			n.Fill(true)
		}
		wants(b.TryCampaign, shortLease/5, "a leads", elector.ErrNotLeader, elector.ErrUnreachable)
		for _, n := range c.Nodes {
			n.Fill(false)
		}
		ill := makeCandidate(t, c.Quorum("c"), "c", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error { return errors.New("disk full") })
		})
		wants(ill.TryCampaign, shortLease, "unhealthy: disk full", context.DeadlineExceeded, elector.ErrUnreachable)
		must(t, term.Close(t.Context()))
		if term, err := b.TryCampaign(within(t, shortLease)); err != nil || !term.Valid() || term.Close(t.Context()) != nil {
			t.Errorf("nobody leads: %v", err)
		}
	})
}

// Regression: an operator who asked for a step-down took the lock away under the running
// work of a campaigned term. Only Term.Close reports that the work has stopped.
func TestStepDownWaitsForTheWorkOfCampaign(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term := campaigned(t, a)
		b := c.Start("b")
		b.Quiet(shortLease)
		op := electionOf(c.Quorum("operator"), "orders")
		go func() { _, _, _ = op.StepDown(within(t, time.Minute), "") }()
		wantReason(t, term, 5*time.Second, elector.ReasonResigned)
		b.Quiet(shortLease / 2) // the work takes so long to stop
		must(t, term.Close(context.Background()))
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

func TestLostReleaseMessageCostsALeaseAtMost(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b, one := pair(c, shortLease)
		c.Each(fault{LoseMessages: true}, "b")
		a.Shutdown()
		two := b.Elected(shortLease + 20*time.Millisecond) // the lease's end, as b last saw it
		newer(t, two, one)
	})
}

// claims are the claims that a node got since then, and how many at
// most within one millisecond.
func claims(n *node, since time.Time) (all, burst int) {
	var at []time.Time
	for _, cl := range n.Took() {
		if cl.Script == "claim" && !cl.At.Before(since) {
			at = append(at, cl.At)
		}
	}
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) >= time.Millisecond {
			from++
		}
		burst = max(burst, i-from+1)
	}
	return len(at), burst
}

func TestIdleFollowersQueryLittle(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a")
		const followers, leases = 3, 40
		for i := range followers {
			c.Start(fmt.Sprintf("f%d", i))
		}
		time.Sleep(2 * shortLease)
		before := make([]int, len(c.Nodes))
		for i, nd := range c.Nodes {
			nd.Took()
			before[i] = nd.Requests()
		}
		time.Sleep(leases * shortLease)
		for i, nd := range c.Nodes {
			all := nd.Requests() - before[i]
			byLeader := leases / 4 * 3 * 2 // three new connections every four leases: HELLO and GET
			for _, cl := range nd.Took() {
				if cl.From("a") {
					byLeader++
				}
			}
			each := float64(all-byLeader) / followers / leases
			t.Logf("node %d: %.2f requests per follower and lease, %.2f by the leader", i, each, float64(byLeader)/leases)
			if each > 4.0/3 {
				t.Errorf("node %d: %.2f requests per follower and lease", i, each)
			}
		}
		continues(t, term)
	})
}

// Regression: candidates that start at once split the votes. Each partial grant is released
// at once, but the losers waited for the end of its lease.
func TestSplitVoteCostsNoLease(t *testing.T) {
	for _, hung := range []int{0, 1} {
		sub(t, fmt.Sprintf("%d of 3 hung", hung), 3, func(t *testing.T, c *cluster) {
			c.Seed()
			for _, nd := range c.Nodes[:hung] {
				nd.Set(frozen)
			}
			slow := 0
			for round := range 10 {
				var all []*candidate
				for i := range 4 {
					all = append(all, c.Start(fmt.Sprintf("r%d-%d", round, i)))
				}
				began := time.Now()
				_, term := first(t, 3*shortLease, all...)
				if term.Since().Sub(began) > time.Second {
					slow++
				}
				for _, x := range all {
					x.Stop()
				}
				for _, x := range all {
					x.Ended(shortLease)
				}
				time.Sleep(2 * shortLease)
			}
			if slow > 0 {
				t.Errorf("%d of 10 elections took a lease", slow)
			}
		})
	}
}

// A rolling deploy starts a replica of the new version before it stops one of the old, in an order
// that nobody chooses. The leadership moves once, to the new version: a leader that stops hands
// over to none that is about to be stopped, too.
func TestDeployMovesTheLeadershipOnce(t *testing.T) {
	for _, s := range []string{elector.SuccessionSeniority, elector.SuccessionPriority} {
		sub(t, s, 1, func(t *testing.T, c *cluster) {
			const deploys, replicas = 10, 5
			random := rand.New(rand.NewPCG(1, 2))
			start := func(version, i int) *candidate {
				return c.Start(fmt.Sprintf("v%d-%d", version, i), func(cfg *elector.Config) {
					cfg.Succession, cfg.Version = s, fmt.Sprintf("1.%d.0", version)
				})
			}
			var running []*candidate
			for i := range replicas {
				running = append(running, start(0, i))
			}
			_, _ = first(t, 3*shortLease, running...)
			time.Sleep(shortLease)
			once := 0
			for deploy := range deploys {
				var fresh []*candidate
				moves := 0
				for i, old := range random.Perm(replicas) {
					fresh = append(fresh, start(deploy+1, i))
					time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
					leads := running[old].IsLeader()
					running[old].Shutdown()
					if leads {
						moves++
					}
					time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
				}
				time.Sleep(shortLease)
				if moves == 1 {
					once++
				}
				running = fresh
			}
			if once != deploys {
				t.Errorf("%d of %d deploys moved the leadership once", once, deploys)
			}
		})
	}
}
