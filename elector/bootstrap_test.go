package elector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
	if next.Token() <= term.Token() {
		t.Errorf("token %d after %d", next.Token(), term.Token())
	}
	if gap := next.Since().Sub(lost); who == other && gap < shortLease-time.Second {
		t.Errorf("the other candidate was elected %v after the loss", gap)
	}
}

// flaky is a probe whose first runs fail.
func flaky(w *ward) []func(*elector.Config) {
	return []func(*elector.Config){probed(w), func(cfg *elector.Config) {
		cfg.ProbeSettings = health.Settings{Interval: 10 * time.Millisecond, Timeout: 10 * time.Millisecond}
	}}
}

// A candidate that was unhealthy since its start has never claimed. It looked.
func TestLossWhileAFollowerWasUnhealthy(t *testing.T) {
	for _, age := range []time.Duration{shortLease / 10, shortLease / 2, shortLease * 9 / 10, 7 * shortLease / 2} {
		t.Run(age.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				time.Sleep(3 * shortLease)
				w := &ward{err: errors.New("disk full")}
				b := c.Start("b", flaky(w)...)
				b.Quiet(age)
				lossUnder(t, c, a, term, b, func() { w.set(nil) })
			})
		})
	}
}

// A candidate that could not reach Redis, or that was suspended, knows nothing of the
// last leases. Once it has been at it for a lease it has nothing to gain by haste either.
func TestLossWhileAFollowerWasAway(t *testing.T) {
	for range 4 { // whether b claims before a's renewal is chance
		bubble(t, 1, func(t *testing.T, c *cluster) {
			a := c.Start("a")
			term := a.Elected(3 * shortLease)
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
		if err := b.Run(ctx, func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }); err != nil {
			t.Fatal(err)
		}
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(5 * shortLease)
		lossUnder(t, c, a, term, b, func() { b.Begin(nil) })
	})
}

// The leader that finds the loss itself is back soon: its own lease has kept all others
// out, and a lease without a leader would gain nobody anything.
func TestLeaderBootstrapsAfterALoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		one := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease + shortLease/20)
		defer never2(t, a, b)()
		forget(c)
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		two := a.Elected(shortLease / 100)
		if two.Token() <= one.Token() {
			t.Errorf("token %d after %d", two.Token(), one.Token())
		}
	})
}

// But not when only the lock was gone: others may have led since, and may lead still.
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
		for _, n := range c.Nodes {
			n.Server().Del(lockKey)
		}
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		for _, n := range c.Nodes {
			n.Server().Del(lockKey) // what the renewal planted
		}
		c.Heal()
		for _, n := range c.Nodes {
			n.Server().Publish("mandate:{orders}:events", fmt.Sprintf("1 released %d  {}", one.Token()))
		}
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
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		forget(c)
		b := c.Start("b") // a first start: it claims at once
		two := b.Elected(shortLease / 100)
		defer never2(t, a, b)()
		time.Sleep(shortLease / 5) // a campaigns again, and meets b
		forget(c)
		for _, n := range c.Nodes {
			n.Server().Publish("mandate:{orders}:events", fmt.Sprintf("1 released %d  {}", two.Token()))
		}
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
		t.Run(c.unhealthy.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, cl *cluster) {
				w := &ward{err: errors.New("not yet")}
				b := cl.Start("b", flaky(w)...)
				b.Quiet(c.unhealthy)
				w.set(nil)
				b.Elected(c.most)
			})
		})
	}
}

// Regression: the first election on fresh nodes took a whole lease. All must be seen to be
// new, and the round ended before the slowest had answered.
func TestFirstElectionIsAtOnceOnUnevenNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		for i, nd := range c.Nodes {
			nd.Set(fault{Delay: time.Duration(100+50*i) * time.Microsecond}) // no two nodes are equally fast
		}
		c.Start("a").Elected(time.Second)
	})
}

// All nodes lose everything while a leader sits. Whoever has seen it must not take
// their ignorance for a first start, whatever wakes it.
func TestNoBootstrapAfterALeaderWasSeen(t *testing.T) {
	const renewed = shortLease / 20 // after a renewal
	for _, age := range []time.Duration{shortLease / 2, shortLease} {
		t.Run(age.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				b := c.Start("b")
				b.Quiet(age + renewed)
				defer never2(t, a, b)()
				forget(c)
				for _, nd := range c.Nodes {
					nd.Server().Publish("mandate:{orders}:events", fmt.Sprintf("1 released %d  {}", term.Token()))
				}
				synctest.Wait()
				began := time.Now()
				_, next := first(t, 3*shortLease, a, b)
				if gap := next.Since().Sub(began); gap < shortLease-time.Second || next.Token() <= term.Token() {
					t.Errorf("elected %v after the loss, token %d after %d", gap, next.Token(), term.Token())
				}
			})
		})
	}
}
