package elector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/health"
)

const renewEvery = shortLease / 4

// Each renewal is counted once, under what came of it; Check fails while the newest one
// is unconfirmed, and no longer.
func TestRenewalsAreCountedByTheirOutcome(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, term := leading(c, "a")
		time.Sleep(4*renewEvery + time.Second)
		if got := a.Stats().Renewals; got.Confirmed != 4 || got.Unconfirmed != 0 || got.Refused != 0 {
			t.Errorf("renewals %+v", got)
		}
		must(t, a.Check())

		for _, nd := range c.Nodes[1:] {
			nd.Set(down)
		}
		time.Sleep(2 * time.Second)
		got := a.Stats().Renewals
		if got.Confirmed != 4 || got.Unconfirmed == 0 || got.Refused != 0 {
			t.Errorf("without a majority: %+v", got)
		}
		if err := a.Check(); err == nil {
			t.Error("no renewal succeeds, and Check is nil")
		}

		c.Heal()
		time.Sleep(renewEvery)
		must(t, a.Check())
		want := a.Stats().Renewals
		unlock(c.Nodes[1:])
		wantReason(t, term, renewEvery+time.Second, elector.ReasonLost)
		if want.Refused++; want.Confirmed <= 4 {
			t.Errorf("after the outage: %+v", want)
		}
		if got := a.Stats().Renewals; got != want {
			t.Errorf("renewals %+v, want %+v", got, want)
		}
	})
}

// A majority that definitely refuses ends the term at once, whatever it refuses with: to
// wait for the deadline would let the work run on beside the next leader's.
func TestRefusedRenewalsEndTheTermAtOnce(t *testing.T) {
	for name, spoil := range map[string]func(m *miniredis.Miniredis, token uint64){
		"lost": func(m *miniredis.Miniredis, _ uint64) { m.Del(lockKey) },
		"lost, and granted to others since": func(m *miniredis.Miniredis, token uint64) {
			m.Del(lockKey)
			_ = m.Set(fenceKey, strconv.FormatUint(token+5, 10))
		},
		"held by another": func(m *miniredis.Miniredis, token uint64) {
			_ = m.Set(lockKey, fmt.Sprintf("b/other/1 n=3 lease=%d token=%d", shortLease.Milliseconds(), token+5))
			m.SetTTL(lockKey, shortLease)
		},
	} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			a, term := leading(c, "a")
			time.Sleep(renewEvery + time.Second)
			for _, nd := range c.Nodes[1:] {
				spoil(nd.Server(), term.Token())
			}
			wantReason(t, term, renewEvery, elector.ReasonLost)
			if got := a.Stats().Renewals; got.Refused != 1 || got.Unconfirmed != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Who was stopped beyond the lease finds its probe silent, and the lease over: the
// latter is what ended the term. As unhealthy it would rest before it runs again.
func TestStoppedBeyondTheLeaseIsNotUnhealthy(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w, unhealthy := &lease.Warp{}, &fakeProbe{}
		a := lying(t, c, w, "a", nil, probed(unhealthy), func(cfg *elector.Config) {
			cfg.ProbeSettings = health.Settings{Interval: shortLease / 1000, Timeout: shortLease / 1000, Failures: 1}
		})
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease/16 + time.Millisecond) // the deadline's own timer has just looked
		w.Wall.Add(int64(time.Hour))
		w.Boot.Add(int64(time.Hour))
		unhealthy.set(errors.New("no answer while we were stopped"))
		wantReason(t, term, shortLease/100, elector.ReasonExpired)
	})
}

// deadlineAfter is how long a term of the default timing may be believed, counted
// from the moment before its newest renewal was sent.
const deadlineAfter = shortLease - shortLease/100 - 2*time.Millisecond - shortLease/4

func TestLostRenewRepliesAreNeverBelieved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, term := leading(c, "a")
		time.Sleep(2*shortLease + time.Second)
		calls := c.Nodes[0].Took()
		var sent time.Time // of the newest renewal that was answered
		for _, cl := range calls {
			if cl.Script == "renew" {
				sent = cl.At
			}
		}
		nd := c.Nodes[0]
		nd.On(func(cl call, p *server.Peer) bool {
			if cl.Script != "renew" {
				return false
			}
			nd.Run(cl)
			p.Close()
			return true
		})
		wantReason(t, term, shortLease, elector.ReasonExpired)
		if d := time.Since(sent); d != deadlineAfter-wire {
			t.Errorf("believed for %v after the last renewal that was answered, want %v", d+wire, deadlineAfter)
		}
		if len(a.Log.Lines("cannot renew the lease")) != 1 {
			t.Errorf("logged %d times", len(a.Log.Lines("cannot renew the lease")))
		}
	})
}

// A leader whose requests pass while no answer reaches it in time prolongs its lock by each renewal that it repeats,
// until its deadline: the next one leads within 1.75 leases. Regression: as a follower it took the lock again and
// again, without knowing it, and nobody led.
func TestNextLeaderWhenOnlyRepliesAreLost(t *testing.T) {
	for name, deaf := range map[string]testredis.Fault{"lost": {Down: testredis.Hold}, "late": {Late: shortLease / 2}} {
		for _, nodes := range []int{1, 3} {
			sub(t, fmt.Sprint(name, nodes), nodes, func(t *testing.T, c *cluster) {
				leading(c, "a")
				b := c.Start("b")
				time.Sleep(2*shortLease + rand.N(shortLease/4))
				c.Each(deaf, "a")
				term := b.Elected(shortLease*7/4 + shortLease/100)
				time.Sleep(5 * shortLease)
				continues(t, term)
			})
		}
	}
}

func TestKeyOverwritten(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, term := leading(c, "a")
		time.Sleep(shortLease + time.Second)
		for _, nd := range c.Nodes[:2] {
			must(t, nd.Server().Set(lockKey, "maintenance by joe"))
		}
		wantReason(t, term, shortLease/4, elector.ReasonLost)
		a.Quiet(10 * shortLease)
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), lockKey) || !strings.Contains(err.Error(), "maintenance by joe") {
			t.Errorf("Check does not name the key and its value: %v", err)
		}
		if lines := a.Log.Lines("cannot campaign"); len(lines) != 1 {
			t.Errorf("logged %d times", len(lines))
		}
		for _, nd := range c.Nodes {
			if v, _ := nd.Server().Get(lockKey); strings.Contains(v, "joe") {
				nd.Server().Del(lockKey)
			}
		}
		newer(t, a.Elected(2*shortLease), term)
	})
}

// While nobody looks: everything is gone, counters too.
func TestFlushAllWithoutALeader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		last := c.Seed().Token()
		for range 3 {
			forget(c)
			a, term := leading(c, "a")
			if term.Token() <= last {
				t.Fatalf("token %d after %d", term.Token(), last)
			}
			last = term.Token()
			a.Shutdown()
		}
	})
}

// Three nodes restart without their data, one after the other, and a candidate starts
// then. While the leader renews in between it is safe; when all of them forget between
// two renewals, nobody can know: the documented overlap, which only the token covers.
func TestAllNodesForgetOneAfterTheOther(t *testing.T) {
	const renewal = shortLease / 4
	for _, gap := range []time.Duration{0, renewal / 5, renewal * 7 / 10, 2 * renewal} {
		sub(t, gap.String(), 3, func(t *testing.T, c *cluster) {
			a, one := leading(c, "a")
			time.Sleep(2*renewal + renewal/10)
			for i, n := range c.Nodes {
				if i > 0 {
					time.Sleep(gap)
				}
				n.Server().FlushAll() // as a restart does, without the lost connections
			}
			time.Sleep(renewal / 20)
			b := c.Start("b")
			if gap > renewal/2 { // a renewal came in between
				defer never2(t, a, b)()
				b.Quiet(shortLease / 2)
				time.Sleep(2 * shortLease)
				return
			}
			two := b.Elected(renewal / 4)
			began := time.Now()
			if !one.Valid() || two.Token() <= one.Token() {
				t.Errorf("token %d (valid %v), then %d", one.Token(), one.Valid(), two.Token())
			}
			<-one.Done()
			if overlap := time.Since(began); overlap > renewal+renewal/10 {
				t.Errorf("two leaders for %v", overlap)
			}
		})
	}
}

// When all nodes forget, the history says so, and not only that the lock was gone, or that they did not answer:
// also when they come back empty after the lease.
func TestHistoryTellsThatAllNodesForgot(t *testing.T) {
	for away, detail := range map[time.Duration]string{
		0:              "at least [23] of 3 nodes lost all their data",
		2 * shortLease: "3 of 3 nodes did not answer for .*",
	} {
		sub(t, away.String(), 3, func(t *testing.T, c *cluster) {
			a, one := leading(c, "a")
			time.Sleep(shortLease)
			if away > 0 {
				c.Each(down)
			}
			time.Sleep(away)
			forget(c)
			c.Heal()
			<-one.Done()
			a.Elected(4 * shortLease)
			time.Sleep(shortLease)
			terms, err := a.Election().History(t.Context(), 5)
			if err != nil || len(terms) != 2 || terms[1].Reason != elector.ReasonDataLost || !regexp.MustCompile("^"+detail+"$").MatchString(terms[1].Detail) {
				t.Errorf("%+v, %v", terms, err)
			}
		})
	}
}

// A majority that forgets at once costs the term, and no candidate leads beside it: also not
// a candidate that was just started, and that can't reach the node which remembers.
func TestMajorityForgets(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, one := leading(c, "a")
		time.Sleep(shortLease/2 + shortLease/20)
		c.Nodes[0].Server().FlushAll()
		c.Nodes[1].Server().FlushAll()
		c.Nodes[2].Set(cut, "b")
		b := c.Start("b")
		defer never2(t, a, b)()
		wantReason(t, one, shortLease/4, elector.ReasonDataLost)
		lost := time.Now()
		_, two := first(t, 3*shortLease, a, b)
		terms, err := a.Election().History(t.Context(), 5)
		if err != nil || len(terms) != 2 || terms[1].Detail != "at least 2 of 3 nodes lost all their data" {
			t.Errorf("the history says %+v, %v", terms, err)
		}
		if gap := two.Since().Sub(lost); gap < shortLease/2 || gap > shortLease*11/10 {
			t.Errorf("elected %v after the loss was noticed", gap)
		}
	})
}

// A new counter starts at the clock. Where the old one was ahead of it, only what the
// candidates remember keeps the tokens from going back.
func TestTokensGoUpAfterALossWhateverTheClock(t *testing.T) {
	for _, who := range []string{"the leader", "a follower"} {
		sub(t, who, 3, func(t *testing.T, c *cluster) {
			ahead := time.Now().Add(30 * time.Minute).UnixMilli()
			for _, n := range c.Nodes {
				must(t, n.Server().Set(fenceKey, strconv.FormatInt(ahead, 10)))
			}
			a, term := leading(c, "a")
			if term.Token() <= uint64(ahead) {
				t.Fatalf("token %d, the counter was %d", term.Token(), ahead)
			}
			next := a
			if who == "a follower" {
				next = c.Start("b")
				next.Quiet(shortLease / 2)
				c.Each(cut, "a")
			}
			forget(c)
			newer(t, next.Elected(4*shortLease), term)
		})
	}
}

// A leader that lost its data may start the election anew, but not once its own lease is
// over: while its work ran on, another one could be elected that
// this candidate never met, and lose its data in turn.
func TestLeaderDoesNotBootstrapAfterItsLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		back := make(chan struct{})
		a := makeCandidate(t, c.Quorum("a"), "a").Begin(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			<-back
			return nil
		})
		one := a.Elected(3 * shortLease)
		time.Sleep(shortLease + shortLease/20)
		forget(c)
		wantReason(t, one, shortLease/4, elector.ReasonDataLost)
		forget(c)
		b := c.Start("b") // a first start: it claims at once
		two := b.Elected(shortLease / 100)
		defer never2(t, a, b)()
		time.Sleep(shortLease + shortLease/20) // just after a renewal
		forget(c)
		close(back)
		for two.Valid() {
			a.Quiet(tick)
		}
	})
}

// A failed attempt of a candidate with a fast clock leaves a high counter on a node. The
// leader learns of it by its renewals; after a loss of all data its next token must be above
// it, though its own clock is behind: also when no renewal could bring the counter back.
func TestTokensStayAboveWhatALeaderHasSeen(t *testing.T) {
	for name, resigns := range map[string]bool{"lost": false, "resigned": true} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			a, one := leading(c, "a")
			raised := one.Token() + uint64((10 * time.Minute).Milliseconds())
			// On a majority: a round ends with the answers of one, and this may be without any one node.
			for _, n := range c.Nodes[:len(c.Nodes)/2+1] {
				_ = n.Server().Set("mandate:{orders}:fence", fmt.Sprint(raised))
			}
			time.Sleep(shortLease)
			if resigns {
				must(t, a.Resign(t.Context()))
			}
			forget(c)
			<-one.Done()
			if two := a.Elected(4 * shortLease); two.Token() <= raised {
				t.Errorf("token %d after a counter of %d", two.Token(), raised)
			}
		})
	}
}

// timingOf is the schedule of a lease by default.
func timingOf(l time.Duration) lease.Timing {
	return lease.Timing{Lease: l, StopMargin: l / 4}
}

// far puts all nodes at the end of a round trip, also for who connects.
func far(c *cluster, trip time.Duration, handshakes int) {
	c.Each(fault{Delay: trip / 2, Far: true, Handshakes: handshakes})
}

// A candidate is elected, renews for many leases, keeps its term through the loss of all
// connections at any moment, and hands over: up to the round trip that doctor names if they are reset,
// and up to L/11 if they are swallowed without a reset; up to L/16 if TLS makes connections dearer.
func TestDistanceThatTermsSurvive(t *testing.T) {
	for name, lose := range map[string]struct {
		trip       func(t lease.Timing) time.Duration
		all        func(*testredis.Node)
		handshakes int
	}{
		"reset": {func(t lease.Timing) time.Duration {
			return min((t.Lease*49/100-2*time.Millisecond)/4, 500*time.Millisecond)
		}, func(n *testredis.Node) { n.Reset("") }, 0},
		"swallowed":          {func(t lease.Timing) time.Duration { return min(t.Lease/11, 500*time.Millisecond) }, (*testredis.Node).Swallow, 0},
		"swallowed with TLS": {func(t lease.Timing) time.Duration { return min(t.Lease/16, 500*time.Millisecond) }, (*testredis.Node).Swallow, 1},
	} {
		for _, l := range []time.Duration{time.Second, 10 * time.Second} {
			t.Run(fmt.Sprint(name, "/", l), func(t *testing.T) {
				survivesTheLossOfConnections(t, l, lose.trip(timingOf(l))-2*time.Millisecond, lose.handshakes, lose.all)
			})
		}
	}
}

func survivesTheLossOfConnections(t *testing.T, l, trip time.Duration, handshakes int, lose func(*testredis.Node)) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		timing := timingOf(l)
		c.Seed()
		far(c, trip, handshakes)
		with := func(cfg *elector.Config) { cfg.Lease = l }
		began := time.Now()
		a := c.Start("a", with)
		term := a.Elected(6 * time.Second) // connections first, whatever the lease
		t.Logf("elected after %v with a round trip of %v", time.Since(began), trip)
		holds := func(what string) {
			t.Helper()
			if !term.Valid() {
				t.Fatalf("%s cost the term: %v", what, term.Err())
			}
		}
		for range 100 {
			time.Sleep(l / 5)
			holds("time")
		}
		const phases = 8
		for i := range phases {
			time.Sleep(3*l + timing.RenewEvery()*time.Duration(i)/phases)
			for _, nd := range c.Nodes {
				lose(nd)
			}
			for range 100 {
				time.Sleep(2 * l / 100)
				holds(fmt.Sprintf("the loss of all connections, %d", i))
			}
		}
		b := c.Start("b", with)
		time.Sleep(2*l + 6*time.Second)
		began = time.Now()
		a.Stop()
		b.Elected(l)
		t.Logf("handed over in %v", time.Since(began))
	})
}

// lasts wants a first term of at least 20 leases.
func lasts(t *testing.T, c *candidate, l time.Duration) {
	t.Helper()
	term := c.Elected(20 * time.Second)
	time.Sleep(20 * l)
	continues(t, term)
}

// A server without persistence restarts. That cuts all connections, so a follower claims before the leader
// renews: the leader goes on all the same, and nobody beside it, also when the data is lost again meanwhile.
func TestLeaderGoesOnWhenItsServersRestartEmpty(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		for claims := range 3 { // each after another loss
			sub(t, fmt.Sprintf("%d nodes, %d claims", nodes, claims), nodes, func(t *testing.T, c *cluster) {
				a, b, one := pair(c, shortLease+shortLease/20)
				defer never2(t, a, b)()
				forget(c)
				for range claims {
					forget(c)
					publish(c, "events", fmt.Sprintf("1 released %d  {}", one.Token()))
					b.Quiet(shortLease / 20)
					if !c.Nodes[0].Server().Exists("mandate:{orders}:new") {
						t.Fatal("b has not claimed")
					}
				}
				wantReason(t, one, shortLease/4, elector.ReasonDataLost)
				newer(t, a.Elected(shortLease/50), one)
			})
		}
	}
}

// Nodes come back with an old dump, in which the leader's lock has lapsed and its token is not known. All connections
// break, and the leader, which does not know it yet, must take its lock again before a follower does, whatever wakes that.
func TestOldDumpDoesNotElectBesideTheLeader(t *testing.T) {
	for name, x := range map[string]struct {
		nodes, stale int
		away, apart  time.Duration // each is, and they are from each other
		wakes        bool
	}{
		"back at once":              {nodes: 1, stale: 1},
		"away for a moment":         {nodes: 1, stale: 1, away: shortLease / 100},
		"the follower is woken":     {nodes: 1, stale: 1, away: shortLease / 100, wakes: true},
		"two of three":              {nodes: 3, stale: 2, away: shortLease / 100},
		"one soon after the other":  {nodes: 3, stale: 2, away: shortLease / 100, apart: shortLease / 33},
		"one later after the other": {nodes: 3, stale: 2, away: shortLease / 100, apart: shortLease / 5},
	} {
		t.Run(name, func(t *testing.T) {
			for phase := range 8 {
				bubble(t, x.nodes, func(t *testing.T, c *cluster) {
					c.Seed()
					a, _ := leading(c, "a")
					all := []*candidate{a, c.Start("b"), c.Start("d")}
					defer never2(t, all...)()
					time.Sleep(3*shortLease + time.Duration(phase)*shortLease/32)
					for _, n := range c.Nodes[:x.stale] {
						n.Set(down)
						n.Server().Del(lockKey)
						_ = n.Server().Set(fenceKey, "1")
						time.Sleep(x.away)
						n.Heal()
						time.Sleep(x.apart)
					}
					if time.Sleep(shortLease / 12); x.wakes {
						all[1].ClaimNow(module.Only{})
					}
					if time.Sleep(2 * shortLease); len(leaders(all)) != 1 {
						t.Error("nobody leads")
					}
				})
			}
		})
	}
}

// A release that a follower hears of while its connections break, or which shows in a counter, costs no wait.
func TestReleaseBesideABrokenConnection(t *testing.T) {
	for name, breaks := range map[string]func(c *cluster, after time.Duration){
		"as the leader releases": func(c *cluster, _ time.Duration) { c.Nodes[0].Reset("b") },
		"in a failover before that": func(c *cluster, after time.Duration) {
			c.Nodes[0].FailOver(c.NewNode("127.0.0.1:7009"))
			time.Sleep(4 * after)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for phase := range 8 {
				bubble(t, 1, func(t *testing.T, c *cluster) {
					c.Seed()
					a, term := leading(c, "a")
					b := c.Start("b")
					after := time.Duration(phase) * shortLease / 32
					time.Sleep(3*shortLease + after)
					breaks(c, after)
					continues(t, term)
					a.Shutdown()
					b.Elected(shortLease / 8)
				})
			}
		})
	}
}

// Regression: a renewal whose connection was lost in silence was not sent again when another connection carried those of
// other elections: a term with a long stop margin ended.
func TestRenewalOnADeadConnectionBesideALivingOne(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q, all := c.Quorum("process"), []*candidate(nil)
		for i := range 3 {
			a := makeCandidate(t, q, "a", func(cfg *elector.Config) {
				cfg.Election, cfg.StopMargin = fmt.Sprint("election-", i), cfg.MaxStopMargin()
			}).Begin(nil)
			a.Elected(3 * shortLease)
			all = append(all, a)
			time.Sleep(shortLease / 13)
		}
		for i := range 40 {
			time.Sleep(3*shortLease + time.Duration(i)*shortLease/80)
			c.Nodes[0].Swallow()
		}
		time.Sleep(3 * shortLease)
		for i, a := range all {
			if n := a.Stats().Renewals.Unconfirmed; n > 0 || strings.Contains(a.Log.String(), "expired") {
				t.Errorf("election %d: %d renewals were not confirmed", i, n)
			}
		}
	})
}
