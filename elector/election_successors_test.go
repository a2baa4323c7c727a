package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/health"
)

// ranked starts five candidates, c1 to c5, one second after another.
func ranked(t *testing.T, c *cluster, s string, change func(i int, cfg *elector.Config)) []*candidate {
	t.Helper()
	var all []*candidate
	for i := 1; i <= 5; i++ {
		all = append(all, c.Start(fmt.Sprint("c", i), func(cfg *elector.Config) {
			cfg.Succession = s
			if change != nil {
				change(i, cfg)
			}
		}))
		if i == 1 {
			all[0].Elected(3 * shortLease)
		}
		time.Sleep(time.Second)
	}
	return all
}

// leave takes the leader away: in good order, or by a cut of its network.
func leave(c *cluster, x *candidate, crash bool) {
	if crash {
		c.Each(cut, x.ID())
	} else {
		x.Shutdown()
	}
}

func TestSuccessionIsPredictable(t *testing.T) {
	for _, s := range []struct {
		name  string
		rank  []int // the priorities
		order []int // who leads after whom
	}{
		{elector.SuccessionSeniority, make([]int, 5), []int{1, 2, 3, 4, 5}},
		// c1 leads at first, and c4 is the highest: it takes over once, when it has been healthy for a lease.
		{elector.SuccessionPriority, []int{1, 3, 2, 9, 4}, []int{4, 5, 2, 3, 1}},
	} {
		for _, crash := range []bool{false, true} {
			sub(t, fmt.Sprintf("%s/crash=%v", s.name, crash), 3, func(t *testing.T, c *cluster) {
				all := ranked(t, c, s.name, func(i int, cfg *elector.Config) { cfg.Priority = s.rank[i-1] })
				leader := all[s.order[0]-1]
				if s.order[0] != 1 {
					for _, x := range []*candidate{all[1], all[2]} { // c2 may have been the highest for a while
						testcluster.Await(x.Terms, 0)
					}
					leader.Elected(2 * shortLease)
				}
				time.Sleep(2 * shortLease) // the leader has told the nodes who goes first
				for _, i := range s.order[1:] {
					leave(c, leader, crash)
					leader = all[i-1]
					leader.Elected(shortLease + 100*time.Millisecond)
					time.Sleep(2 * shortLease)
				}
			})
		}
	}
}

// A favourite that is ill, or dies without a word, delays by a bounded time, and
// one that flaps does not make leadership flap.
func TestPriorityDoesNotFlap(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var unhealthy atomic.Bool
		low, _ := leading(c, "low", func(cfg *elector.Config) { cfg.Succession, cfg.Priority = elector.SuccessionPriority, 1 })
		high := c.Start("high", func(cfg *elector.Config) {
			cfg.Succession, cfg.Priority = elector.SuccessionPriority, 2
			cfg.ProbeSettings = health.Settings{Interval: shortLease / 10, Timeout: shortLease / 20, Failures: 1}
			cfg.Probe = health.Func(func(context.Context) error {
				if unhealthy.Load() {
					return errors.New("disk full")
				}
				return nil
			})
		})
		for range 20 {
			unhealthy.Store(true)
			time.Sleep(shortLease / 2)
			unhealthy.Store(false)
			high.Quiet(shortLease / 2)
		}
		high.Elected(2 * shortLease)
		low.Quiet(4 * shortLease)
	})
}

func TestDeadHeirDelaysForABoundedTime(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(*cluster, *candidate) // of the leader
		most time.Duration
	}{
		"the leader stops": {func(_ *cluster, a *candidate) { a.Shutdown() }, shortLease / 4},
		"both die":         {func(c *cluster, a *candidate) { c.Each(cut, a.ID()) }, shortLease * 5 / 4},
	} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			all := ranked(t, c, elector.SuccessionSeniority, nil)
			time.Sleep(shortLease)
			c.Each(cut, "c2") // the heir, without a word
			began := time.Now()
			tc.end(c, all[0])
			_, term := first(t, 2*shortLease, all[2:]...)
			if gap := term.Since().Sub(began); gap > tc.most+100*time.Millisecond {
				t.Errorf("%v without a leader", gap)
			}
		})
	}
}

func TestMaxTermNeedsNoSuccession(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a", func(cfg *elector.Config) { cfg.MaxTerm = 3 * shortLease })
		b := c.Start("b")
		b.Elected(4 * shortLease)
		wantReason(t, term, 0, elector.ReasonHandover)
	})
}

// Regression: a candidate of the highest priority that had died without a word made every
// leader step down for it, one after another.
func TestLeadersDoNotYieldToTheDead(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all := ranked(t, c, elector.SuccessionPriority, nil) // all of one priority: the first leads
		high := c.Start("high", func(cfg *elector.Config) { cfg.Succession, cfg.Priority = elector.SuccessionPriority, 9 })
		high.Quiet(shortLease / 2) // it has to be healthy for longer before it may take over
		c.Each(cut, "high")
		all[0].Quiet(4 * shortLease)
		if !all[0].IsLeader() {
			t.Error("the leader yielded to a dead one")
		}
		for _, x := range all[1:] {
			x.Quiet(0)
		}
	})
}

// Regression: on a Redis without memory the roll call shows able candidates, and whoever made
// the leader step down then left the election without one: the lock can be given back there, and
// not taken.
func TestSuccessorsOnNodesThatRefuseWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes   int
		fault   func(c *cluster)
		refused string // "": b could lead
	}{
		"one node, full":        {1, func(c *cluster) { c.Nodes[0].Fill(true) }, "1 of 1 Redis nodes refuse writes (127.0.0.1:7001: OOM command not allowed"},
		"a majority is full":    {3, func(c *cluster) { c.Nodes[0].Fill(true); c.Nodes[2].Fill(true) }, "2 of 3 Redis nodes refuse writes (127.0.0.1:7001: OOM"},
		"a minority is full":    {3, func(c *cluster) { c.Nodes[0].Fill(true) }, ""},
		"one full, one down":    {3, func(c *cluster) { c.Nodes[0].Fill(true); c.Nodes[1].Set(down, "operator") }, "1 of 3 Redis nodes refuse writes (127.0.0.1:7001: OOM"},
		"one hangs":             {3, func(c *cluster) { c.Nodes[1].Set(frozen, "operator") }, ""},
		"one full, one hangs":   {3, func(c *cluster) { c.Nodes[0].Fill(true); c.Nodes[1].Set(frozen, "operator") }, "1 of 3 Redis nodes refuse writes"},
		"this user may not SET": {1, func(c *cluster) { c.Nodes[0].Deny("set") }, ""},
	} {
		sub(t, name, tc.nodes, func(t *testing.T, c *cluster) {
			_, b, term := pair(c, shortLease+shortLease/3)
			el := electionOf(c.Quorum("operator"), "orders")
			tc.fault(c)
			able, err := el.Successors(within(t, time.Minute))
			if tc.refused == "" {
				if err != nil || len(able) != 1 || able[0].ID != "b" {
					t.Errorf("%+v, %v", able, err)
				}
				return
			}
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "no other leader could be elected: "+tc.refused) {
					t.Errorf("%s: %v", what, err)
				}
			}
			check("successors", err)
			_, _, err = el.Transfer(within(t, time.Minute), "b")
			check("transfer", err)
			b.Quiet(shortLease)
			continues(t, term)
		})
	}
}

func TestSuccessors(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		el := electionOf(c.Quorum("operator"), "orders")
		refused := func(with string) {
			t.Helper()
			if able, err := el.Successors(within(t, time.Minute)); len(able) > 0 || !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), with) {
				t.Errorf("%+v, %v; want a refusal with %q", able, err, with)
			}
		}
		if able, err := el.Successors(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("without a leader: %+v, %v", able, err)
		}
		a := c.Start("a")
		a.Elected(atOnce)
		refused("there is no other candidate")
		w := &fakeProbe{err: errors.New("the queue is not reachable")}
		b := c.Start("b", probed(w))
		b.Quiet(5 * time.Second) // three failed probes
		refused("b is unhealthy: the queue is not reachable")
		c.Start("c").Quiet(shortLease)
		if able, err := el.Successors(t.Context()); err != nil || len(able) != 1 || able[0].ID != "c" {
			t.Errorf("%+v, %v", able, err)
		}
		must(t, el.Pause(t.Context(), 0, "migration"))
		refused("the election is paused (migration)")
	})
}
