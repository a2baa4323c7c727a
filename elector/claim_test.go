package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/health"
)

// All nodes lose their data under a leader. Only a candidate that could not have known
// of it may take that for a first start.

// forget makes all nodes lose everything at once.
func forget(c *cluster) {
	for _, n := range c.Nodes {
		n.Server().FlushAll()
	}
}

// unlock deletes the election's lock on nodes.
func unlock(nodes []*node) {
	for _, n := range nodes {
		n.Server().Del(lockKey)
	}
}

// lossUnder makes the nodes forget shortly after a renewal of the leader, and lets the
// other candidate go at that moment: it must not lead before the nodes' lease of
// abstention is over.
func lossUnder(t *testing.T, c *cluster, leader *candidate, term *elector.Term, other *candidate, let func()) {
	t.Helper()
	const renewal = shortLease / 4
	time.Sleep(renewal + renewal/5 - time.Since(term.Since())%renewal)
	defer never2(t, leader, other)()
	forget(c)
	let()
	synctest.Wait()
	lost := time.Now()
	who, next := first(t, 3*shortLease, other, leader)
	newer(t, next, term)
	if gap := next.Since().Sub(lost); who == other && gap < shortLease-time.Second {
		t.Errorf("the other candidate was elected %v after the loss", gap)
	}
}

// flaky is a probe whose first runs fail.
func flaky(w *fakeProbe) []func(*elector.Config) {
	return []func(*elector.Config){probed(w), func(cfg *elector.Config) {
		cfg.ProbeSettings = health.Settings{Interval: 10 * time.Millisecond, Timeout: 10 * time.Millisecond}
	}}
}

// A candidate that was unhealthy since its start has never claimed. It looked.
func TestLossWhileAFollowerWasUnhealthy(t *testing.T) {
	for _, age := range []time.Duration{shortLease / 10, shortLease / 2, shortLease * 9 / 10, 7 * shortLease / 2} {
		sub(t, age.String(), 3, func(t *testing.T, c *cluster) {
			a, term := leading(c, "a")
			time.Sleep(3 * shortLease)
			w := &fakeProbe{err: errors.New("disk full")}
			b := c.Start("b", flaky(w)...)
			b.Quiet(age)
			lossUnder(t, c, a, term, b, func() { w.set(nil) })
		})
	}
}

// A candidate that could not reach Redis, or that was suspended, knows nothing of the
// last leases. Once it has been at it for a lease it has nothing to gain by haste either.
func TestLossWhileAFollowerWasAway(t *testing.T) {
	for range 4 { // whether b claims before a's renewal is chance
		bubble(t, 1, func(t *testing.T, c *cluster) {
			a, term := leading(c, "a")
			c.Each(cut, "b")
			b := c.Start("b")
			b.Quiet(3 * shortLease)
			lossUnder(t, c, a, term, b, func() { c.Each(fault{}, "b") })
		})
	}
}

// What an Elector has seen it remembers when Run is called again.
func TestLossBetweenTwoRuns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		b := makeCandidate(t, c.Quorum("b"), "b")
		ctx, cancel := context.WithTimeout(t.Context(), shortLease/2)
		defer cancel()
		must(t, b.Run(ctx, func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }))
		a, term := leading(c, "a")
		time.Sleep(5 * shortLease)
		lossUnder(t, c, a, term, b, func() { b.Begin(nil) })
	})
}

// A leader that finds the loss of all data itself leads again at once, but not when only the lock was gone: others may have
// led since, and may lead still.
func TestLeaderDoesNotBootstrapAfterALostLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		back := make(chan struct{})
		a := makeCandidate(t, c.Quorum("a"), "a")
		a.Begin(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			<-back
			return nil
		})
		one := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease + shortLease/20)
		defer never2(t, a, b)()
		c.Each(fault{Up: testredis.Hold, Down: testredis.Hold}, "b") // its claim comes after the renewal
		unlock(c.Nodes)
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		unlock(c.Nodes) // what the renewal planted
		c.Heal()
		publish(c, "events", fmt.Sprintf("1 released %d  {}", one.Token()))
		b.Elected(shortLease / 4)
		forget(c)
		close(back)
		a.Quiet(shortLease - time.Second)
	})
}

// Nor when another one has been elected since, in spite of its own lease: one that started
// after the nodes had lost their data again, and could not know.
func TestLeaderDoesNotBootstrapUnderTheNextOne(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a").Begin(stopsAfter(shortLease / 10))
		one := a.Elected(3 * shortLease)
		time.Sleep(shortLease + shortLease/20)
		forget(c)
		wantReason(t, one, shortLease/4, elector.ReasonDataLost)
		forget(c)
		b := c.Start("b") // a first start: it claims at once
		two := b.Elected(shortLease / 100)
		defer never2(t, a, b)()
		time.Sleep(shortLease / 5) // a campaigns again, and meets b
		forget(c)
		publish(c, "events", fmt.Sprintf("1 released %d  {}", two.Token()))
		for two.Valid() {
			a.Quiet(tick)
		}
	})
}

// A first start needs no wait, also when the probe needs a moment. Where nobody could
// claim for longer than a lease it costs one more.
func TestFirstStartIsAtOnce(t *testing.T) {
	for _, c := range []struct{ unhealthy, most time.Duration }{
		{shortLease / 2, shortLease / 10}, {5 * shortLease, shortLease + shortLease/10},
	} {
		sub(t, c.unhealthy.String(), 3, func(t *testing.T, cl *cluster) {
			w := &fakeProbe{err: errors.New("not yet")}
			b := cl.Start("b", flaky(w)...)
			b.Quiet(c.unhealthy)
			w.set(nil)
			b.Elected(c.most)
		})
	}
}

// Regression: the first election on fresh nodes took a whole lease. All must be seen to be
// new, and the round ended before the slowest had answered.
func TestFirstElectionIsAtOnceOnUnevenNodes(t *testing.T) {
	for _, far := range []time.Duration{200 * time.Microsecond, 20 * time.Millisecond} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			for i, nd := range c.Nodes {
				nd.Set(fault{Delay: time.Duration(100+50*i) * time.Microsecond}) // no two nodes are equally fast
			}
			c.Nodes[2].Set(fault{Delay: far})
			c.Start("a").Elected(time.Second)
		})
	}
}

// All nodes lose everything while a leader sits. Whoever has seen it must not take
// their ignorance for a first start, whatever wakes it.
func TestNoBootstrapAfterALeaderWasSeen(t *testing.T) {
	const renewed = shortLease / 20 // after a renewal
	for _, age := range []time.Duration{shortLease / 2, shortLease} {
		sub(t, age.String(), 3, func(t *testing.T, c *cluster) {
			a, b, term := pair(c, age+renewed)
			defer never2(t, a, b)()
			forget(c)
			publish(c, "events", fmt.Sprintf("1 released %d  {}", term.Token()))
			synctest.Wait()
			b.Quiet(shortLease/4 - renewed - tick) // b has claimed, and found them new
			newer(t, a.Elected(shortLease/4), term)
		})
	}
}

// A claim that wins only the node that the leader does not reach gives it back, and leaves a higher counter there. The
// leader, back from an outage of its own way to that node, finds it free and the counter beyond its token, with many
// followers again at each renewal. It must get the node back: one of the others may fail next.
func TestClaimsOfAMinorityDontKeepANodeFromTheLeader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		_, term := leading(c, "a")
		time.Sleep(renewEvery + time.Second)
		c.Nodes[0].Set(cut, "a")
		time.Sleep(2 * shortLease) // its lock lapses there
		node := c.Nodes[0].Server()
		go func() { // what the claims of many followers leave
			for ; t.Context().Err() == nil && !node.Exists(lockKey); time.Sleep(renewEvery / 10) {
				_, _ = node.Incr(fenceKey, 1)
			}
		}()
		time.Sleep(renewEvery)

		c.Nodes[0].Set(fault{}, "a")
		time.Sleep(2*renewEvery + callTimeout)
		for range 10 { // and keeps it
			if !node.Exists(lockKey) {
				t.Fatal("the leader does not hold the node that it reaches")
			}
			time.Sleep(time.Second)
		}
		c.Nodes[1].Set(down) // the other one holds, then
		time.Sleep(2 * shortLease)
		continues(t, term)
	})
}

// Regression: a foreign lock on one node of three kept every candidate from leading.
func TestForeignLockOnAMinority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		must(t, c.Nodes[0].Server().Set(lockKey, "maintenance by joe"))
		a, term := leading(c, "a")
		time.Sleep(3 * shortLease)
		continues(t, term)
		must(t, a.Check())
		if lines := a.Log.Lines("maintenance by joe"); len(lines) != 1 {
			t.Errorf("logged %d times", len(lines))
		}
	})
}

// A claim that first had to wait for a connection has used up a part of its lease: the first
// renewal is due by when the claim was sent, or the term would expire before it.
func TestFirstRenewalIsDueByTheClaim(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Start("a").Elected(shortLease)
		client := c.Client("b", 0, func(o *redis.Options) { o.ConnMaxLifetime = shortLease / 4 })
		defer client.Close()
		b := makeCandidate(t, quorumOf(t, client), "b").Begin(nil)
		time.Sleep(shortLease / 2)
		c.Each(cut, "a")
		for c.Nodes[0].Server().TTL(lockKey) > 100*time.Millisecond {
			time.Sleep(50 * time.Millisecond)
		}
		c.Each(fault{Delay: 970 * time.Millisecond, Far: true}, "b")
		term := b.Elected(3 * shortLease)
		left := term.Left()
		if left > shortLease*3/16 { // it is renewed every quarter of a lease, and up to a quarter of that shorter to share a moment
			t.Fatalf("the claim was answered too soon for this test: %v are left", left)
		}
		c.Each(fault{}, "b")
		time.Sleep(3 * shortLease)
		continues(t, term)
	})
}

// crash ends a candidate without a word to Redis.
func crash(c *cluster, x *candidate) {
	c.Each(cut, x.ID())
	x.Stop()
}

// A renewal of the old term that arrives in the new one must not count for it.
func TestLateRenewalOfAnEarlierTerm(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.Start("a"), c.Start("b")
		x, one := first(t, 3*shortLease, a, b)
		y := others([]*candidate{a, b}, x)[0]
		time.Sleep(shortLease)
		defer never2(t, a, b)()
		for _, nd := range c.Nodes {
			nd.Set(fault{Up: testredis.Hold, Down: testredis.Hold}, x.ID()) // renewals, and then the release, are kept on the way
		}
		wantReason(t, one, shortLease, elector.ReasonExpired)
		two := y.Elected(shortLease)
		time.Sleep(time.Second)
		value, _ := c.Nodes[0].Server().Get(lockKey)
		c.Heal() // now they arrive
		time.Sleep(3 * shortLease)
		continues(t, two)
		for i, nd := range c.Nodes {
			if v, _ := nd.Server().Get(lockKey); v != value {
				t.Errorf("node %d: the lock is %q, was %q", i, v, value)
			}
		}
		if len(x.Terms) > 0 {
			t.Error("the old leader came back beside the new one")
		}
	})
}

// A context that ends in the middle of a claim leaves no orphan behind.
func TestCancelledInTheMiddleOfAClaim(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		for i, nd := range c.Nodes {
			nd.Set(fault{Delay: time.Duration(10+10*i) * time.Millisecond})
		}
		for after := time.Duration(0); after < 100*time.Millisecond; after += 3 * time.Millisecond {
			a := c.Start(fmt.Sprint("a", after.Milliseconds()))
			time.Sleep(after)
			a.Stop()
			if err := a.Ended(time.Second); err != nil {
				t.Errorf("after %v: %v", after, err)
			}
			eventually(t, 200*time.Millisecond, fmt.Sprintf("no orphan key after a claim cancelled at %v", after), func() bool { return c.Locks() == 0 })
			time.Sleep(200 * time.Millisecond)
			if n := c.Locks(); n != 0 {
				t.Errorf("after %v: a late claim left %d keys", after, n)
			}
		}
	})
}

// A candidate with another lease or another number of nodes does not lead beside the leader. Regression: the round ended with
// the majority's yes, without the answer of the node that shows the other candidate, and two terms were valid at once.
func TestRefusesToLeadUnderOtherSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []int // of the leader; a majority of all may be free
		lease time.Duration
		says  []string
	}{
		"shorter": {nil, shortLease / 2, []string{"refusing to lead", (shortLease / 2).String(), shortLease.String()}},
		"longer":  {nil, 2 * shortLease, []string{"refusing to lead", (2 * shortLease).String(), shortLease.String()}},
		"nodes":   {[]int{0}, shortLease, []string{"refusing to lead", "a holds the lock and counts 1 Redis nodes, this candidate 3"}},
	} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			a := c.StartOn("a", tc.nodes)
			term := a.Elected(3 * shortLease)
			time.Sleep(shortLease)
			b := c.Start("b", func(cfg *elector.Config) { cfg.Lease = tc.lease })
			defer never2(t, a, b)()
			b.Quiet(10 * shortLease)
			for _, says := range tc.says {
				if err := b.Check(); !strings.Contains(fmt.Sprint(err), says) {
					t.Errorf("Check: %v, want %q", err, says)
				}
			}
			if lines := b.Log.Lines("cannot campaign", "refusing to lead"); len(lines) != 1 {
				t.Errorf("logged %d times", len(lines))
			}
			continues(t, term)
			must(t, a.Check())
			a.Shutdown() // when the old ones are gone, the new ones may
			b.Elected(3 * shortLease)
		})
	}
}

// Farther away a term is lost with its connections, and beyond the time of a call nobody
// leads.
func TestDistanceAtWhichNoCandidateLeads(t *testing.T) {
	for _, l := range []time.Duration{time.Second, 10 * time.Second} {
		timing := timingOf(l)
		for _, tc := range []struct {
			trip  time.Duration
			leads bool
		}{
			{timing.MaxRoundTrip() - 2*time.Millisecond, true},
			{timing.MaxRoundTrip() + 2*time.Millisecond, true},
			{l/5 - 4*time.Millisecond, true},
			{l/5 + 4*time.Millisecond, false},
		} {
			if tc.trip > 2*time.Second { // nobody dials that far; and go-redis' PubSub waits with its mutex held
				continue
			}
			sub(t, fmt.Sprintf("%v/%v", l, tc.trip), 3, func(t *testing.T, c *cluster) {
				c.Seed()
				far(c, tc.trip, 0)
				a := c.Start("a", func(cfg *elector.Config) { cfg.Lease = l })
				switch {
				case tc.trip <= timing.MaxRoundTrip()+2*time.Millisecond:
					lasts(t, a, l)
				case tc.leads:
					a.Elected(20 * time.Second)
				default:
					time.Sleep(20 * l)
					if len(a.Terms) > 0 {
						t.Error("a candidate led")
					}
				}
			})
		}
	}
}

// A new election starts at once when its nodes can be reached, also if a majority could not be at the start of the
// candidates: only a loss of data, and a start of more than a lease ago, cost a lease.
func TestNewElectionAfterNodesThatCameLate(t *testing.T) {
	for range 5 {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			for _, n := range c.Nodes[:2] {
				n.Set(cut)
			}
			a, b := c.Start("a"), c.Start("b")
			time.Sleep(shortLease / 3)
			c.Heal()
			first(t, shortLease/2, a, b)
		})
	}
}
