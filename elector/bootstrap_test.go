package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// All nodes lose their data under a leader. Only a candidate that could not have known
// of it may take that for a first start.

// forget makes all nodes lose everything at once.
func (c *cluster) forget() {
	for _, n := range c.nodes {
		n.server().FlushAll()
	}
}

// onAll runs f with one node, and with three.
func onAll(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) { bubble(t, n, f) })
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
	c.forget()
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
			onAll(t, func(t *testing.T, c *cluster) {
				a := c.start("a")
				term := a.elected(3 * shortLease)
				time.Sleep(3 * shortLease)
				w := &ward{err: errors.New("sick")}
				b := c.start("b", flaky(w)...)
				b.quiet(age)
				lossUnder(t, c, a, term, b, func() { w.set(nil) })
			})
		})
	}
}

// A candidate that rests has claimed before, but long ago.
func TestLossWhileAFollowerRested(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		const rest = 8 * shortLease
		b := c.start("b", func(cfg *elector.Config) { cfg.Cooldown = rest })
		b.elected(3 * shortLease)
		a := c.start("a")
		time.Sleep(shortLease)
		if err := b.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		rested := time.Now()
		term := a.elected(shortLease)
		time.Sleep(rest - 10*time.Millisecond - time.Since(rested))
		lossUnder(t, c, a, term, b, func() {})
	})
}

// A candidate that could not reach Redis, or that was suspended, knows nothing of the
// last leases. Once it has been at it for a lease it has nothing to gain by haste either.
func TestLossWhileAFollowerWasAway(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		term := a.elected(3 * shortLease)
		c.each(cut, "b")
		b := c.start("b")
		b.quiet(3 * shortLease)
		lossUnder(t, c, a, term, b, func() { c.each(fault{}, "b") })
	})
}

// What an Elector has seen it remembers when Run is called again.
func TestLossBetweenTwoRuns(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		b := makeCandidate(t, c.quorum("b"), "b")
		ctx, cancel := context.WithTimeout(t.Context(), shortLease/2)
		defer cancel()
		if err := b.Run(ctx, func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }); err != nil {
			t.Fatal(err)
		}
		a := c.start("a")
		term := a.elected(3 * shortLease)
		time.Sleep(5 * shortLease)
		lossUnder(t, c, a, term, b, func() { b.run(nil) })
	})
}

// The leader that finds the loss itself is back soon: its own lease has kept all others
// out, and a lease without a leader would gain nobody anything.
func TestLeaderBootstrapsAfterALoss(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		one := a.elected(3 * shortLease)
		b := c.start("b")
		b.quiet(shortLease + shortLease/20)
		defer never2(t, a, b)()
		c.forget()
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		two := a.elected(shortLease / 100)
		if two.Token() <= one.Token() {
			t.Errorf("token %d after %d", two.Token(), one.Token())
		}
	})
}

// But not when only the lock was gone: others may have led since, and may lead still.
func TestLeaderDoesNotBootstrapAfterALostLock(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		back := make(chan struct{})
		a := makeCandidate(t, c.quorum("a"), "a")
		a.run(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			<-back
			return nil
		})
		one := a.elected(3 * shortLease)
		b := c.start("b")
		b.quiet(shortLease + shortLease/20)
		defer never2(t, a, b)()
		c.each(fault{up: hold, down: hold}, "b") // its claim comes after the renewal
		for _, n := range c.nodes {
			n.server().Del(lockKey)
		}
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		for _, n := range c.nodes {
			n.server().Del(lockKey) // what the renewal planted
		}
		c.heal()
		for _, n := range c.nodes {
			n.server().Publish("mandate:{orders}:wake", fmt.Sprintf("released %d ", one.Token()))
		}
		b.elected(shortLease / 4)
		c.forget()
		close(back)
		a.quiet(shortLease - time.Second)
	})
}

// Nor when another one has been elected since, in spite of its own lease: one that started
// after the nodes had lost their data again, and could not know.
func TestLeaderDoesNotBootstrapUnderTheNextOne(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.quorum("a"), "a").run(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			time.Sleep(shortLease / 10)
			return nil
		})
		one := a.elected(3 * shortLease)
		time.Sleep(shortLease + shortLease/20)
		c.forget()
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		c.forget()
		b := c.start("b") // a first start: it claims at once
		two := b.elected(shortLease / 100)
		defer never2(t, a, b)()
		time.Sleep(shortLease / 5) // a campaigns again, and meets b
		c.forget()
		for _, n := range c.nodes {
			n.server().Publish("mandate:{orders}:wake", fmt.Sprintf("released %d ", two.Token()))
		}
		for two.Valid() {
			a.quiet(tick)
		}
	})
}

// A first start needs no wait, also when the probe needs a moment. Where nobody could
// claim for longer than a lease it costs one more.
func TestFirstStartIsAtOnce(t *testing.T) {
	for _, c := range []struct{ ill, most time.Duration }{
		{shortLease / 2, shortLease / 10}, {5 * shortLease, shortLease + shortLease/10},
	} {
		t.Run(c.ill.String(), func(t *testing.T) {
			onAll(t, func(t *testing.T, cl *cluster) {
				w := &ward{err: errors.New("not yet")}
				b := cl.start("b", flaky(w)...)
				b.quiet(c.ill)
				w.set(nil)
				b.elected(c.most)
			})
		})
	}
}

// Looking costs an unhealthy or resting candidate no more than following costs.
func TestLooksCostLittle(t *testing.T) {
	for _, rests := range []bool{false, true} {
		t.Run(fmt.Sprintf("rests=%v", rests), func(t *testing.T) {
			onAll(t, func(t *testing.T, c *cluster) {
				w, ran := &ward{}, make(chan struct{}, 1)
				b := makeCandidate(t, c.quorum("b"), "b", append(flaky(w), func(cfg *elector.Config) { cfg.RestartDelay = 40 * shortLease })...)
				if rests {
					b.run(func(context.Context, *elector.Term) error { ran <- struct{}{}; return nil })
					<-ran
				} else {
					w.set(errors.New("sick"))
					b.run(nil)
				}
				c.start("a").elected(3 * shortLease)
				time.Sleep(2 * shortLease)
				for _, n := range c.nodes {
					n.took()
				}
				const leases = 12
				time.Sleep(leases * shortLease)
				for i, n := range c.nodes {
					looks := 0
					for _, cl := range n.took() {
						if cl.script == "read" {
							looks++
						}
					}
					if looks < leases-1 || looks > leases*4/3 {
						t.Errorf("node %d: %d looks in %d leases", i, looks, leases)
					}
				}
			})
		})
	}
}

// Three nodes restart without their data, one after the other, and a candidate starts
// then. While the leader renews in between it is safe; when all of them forget between
// two renewals, nobody can know: the documented overlap, which only the token covers.
func TestAllNodesForgetOneAfterTheOther(t *testing.T) {
	const renewal = shortLease / 4
	for _, gap := range []time.Duration{0, renewal / 5, renewal * 7 / 10, 2 * renewal} {
		t.Run(gap.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.start("a")
				one := a.elected(3 * shortLease)
				time.Sleep(2*renewal + renewal/10)
				for i, n := range c.nodes {
					if i > 0 {
						time.Sleep(gap)
					}
					n.server().FlushAll() // as a restart does, without the lost connections
				}
				time.Sleep(renewal / 20)
				b := c.start("b")
				if gap > renewal/2 { // a renewal came in between
					defer never2(t, a, b)()
					b.quiet(shortLease / 2)
					time.Sleep(2 * shortLease)
					return
				}
				two := b.elected(renewal / 4)
				began := time.Now()
				if !one.Valid() || two.Token() <= one.Token() {
					t.Errorf("token %d (valid %v), then %d", one.Token(), one.Valid(), two.Token())
				}
				<-one.Done()
				if overlap := time.Since(began); overlap > renewal+renewal/10 {
					t.Errorf("two leaders for %v", overlap)
				}
			})
		})
	}
}

// A majority that forgets at once costs the term, and nobody leads beside it: also not
// a candidate that was just started, and that can't reach the node which remembers.
func TestAMajorityForgets(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.start("a")
		one := a.elected(3 * shortLease)
		time.Sleep(shortLease/2 + shortLease/20)
		c.nodes[0].server().FlushAll()
		c.nodes[1].server().FlushAll()
		c.nodes[2].set(cut, "b")
		b := c.start("b")
		defer never2(t, a, b)()
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		lost := time.Now()
		_, two := first(t, 3*shortLease, a, b)
		if gap := two.Since().Sub(lost); gap < shortLease/2 || gap > shortLease*11/10 {
			t.Errorf("elected %v after the loss was noticed", gap)
		}
	})
}

// A new counter starts at the clock. Where the old one was ahead of it, only what the
// candidates remember keeps the tokens from going back.
func TestTokensGoUpAfterALossWhateverTheClock(t *testing.T) {
	for _, who := range []string{"the leader", "a follower"} {
		t.Run(who, func(t *testing.T) {
			onAll(t, func(t *testing.T, c *cluster) {
				ahead := time.Now().Add(30 * time.Minute).UnixMilli()
				for _, n := range c.nodes {
					if err := n.server().Set(fenceKey, strconv.FormatInt(ahead, 10)); err != nil {
						t.Fatal(err)
					}
				}
				a := c.start("a")
				term := a.elected(3 * shortLease)
				if term.Token() <= uint64(ahead) {
					t.Fatalf("token %d, the counter was %d", term.Token(), ahead)
				}
				next := a
				if who == "a follower" {
					next = c.start("b")
					next.quiet(shortLease / 2)
					c.each(cut, "a")
				}
				c.forget()
				if again := next.elected(4 * shortLease); again.Token() <= term.Token() {
					t.Errorf("token %d after %d", again.Token(), term.Token())
				}
			})
		})
	}
}
