package shard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// warmth is what a member's Warm does, and has done.
type warmth struct {
	takes  time.Duration
	fails  error
	panics bool
	deaf   bool // it goes on when its context ends

	mu           sync.Mutex // of all below
	begun, ready map[int]int
	stopped      int
}

func (w *warmth) config(cfg *shard.Config) {
	w.begun, w.ready = map[int]int{}, map[int]int{}
	cfg.Warm = func(ctx context.Context, s int) error {
		w.mu.Lock()
		w.begun[s]++
		w.mu.Unlock()
		if w.panics {
			panic("cache")
		}
		done := ctx.Done()
		if w.deaf {
			done = nil
		}
		select {
		case <-time.After(w.takes):
		case <-done:
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stopped++
			return ctx.Err()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ready[s]++
		return w.fails
	}
}

func (w *warmth) counts() (begun, ready, stopped int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.begun {
		begun += n
	}
	for _, n := range w.ready {
		ready += n
	}
	return begun, ready, w.stopped
}

// A shard moves as planned when its next owner is warm, at a join and at an orderly stop that takes
// longer than the drain alone may; its owner works on meanwhile. The shards without an owner wait for nobody.
func TestAPlannedMoveIsWarm(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 8)
		first, second := warmth{takes: 12 * time.Second}, warmth{takes: 4 * time.Second}
		longer := func(cfg *shard.Config) { cfg.WarmTimeout = 15 * time.Second }
		g.join("a", first.config, longer)
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "a") })
		b := g.join("b", second.config)
		time.Sleep(4 * time.Second)
		if !g.l.even(8, "a") {
			t.Errorf("while the other member gets warm: %v", g.l.counts())
		}
		g.eventually(2*time.Second, "even", func() bool { return g.l.even(8, "a", "b") })
		if begun, ready, _ := second.counts(); begun != 4 || ready != 4 {
			t.Errorf("4 shards moved, Warm was called for %d and returned for %d", begun, ready)
		}
		if begun, _, _ := first.counts(); begun != 0 {
			t.Errorf("Warm was called for %d shards that had no owner", begun)
		}
		b.stop()
		time.Sleep(11 * time.Second)
		if !g.l.even(8, "a", "b") {
			t.Errorf("while the members that stay get warm: %v", g.l.counts())
		}
		if err := b.ended(t, 3*time.Second); err != nil || !g.l.even(8, "a") {
			t.Errorf("after the end: %v, %v", g.l.counts(), err)
		}
		if _, ready, _ := first.counts(); ready != 4 {
			t.Errorf("4 shards came back, Warm had returned for %d", ready)
		}
		if g.l.gap > 5*time.Millisecond {
			t.Errorf("a shard was without an owner for %v", g.l.gap)
		}
	})
}

// A member that is not warm in time has the shard all the same, and its Warm's context ends.
func TestAColdMemberIsNotWaitedForLonger(t *testing.T) {
	for name, deaf := range map[string]bool{"returns": false, "does not return": true} {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				g := newGroup(t, c, 8)
				w := warmth{takes: time.Minute, deaf: deaf}
				g.join("a")
				g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "a") })
				g.join("b", w.config, func(cfg *shard.Config) { cfg.WarmTimeout = 3 * time.Second })
				time.Sleep(3 * time.Second)
				if !g.l.even(8, "a") {
					t.Errorf("before the time is up: %v", g.l.counts())
				}
				g.eventually(2*time.Second, "even", func() bool { return g.l.even(8, "a", "b") })
				if begun, _, stopped := w.counts(); begun != 4 || !deaf && stopped != 4 {
					t.Errorf("Warm was called %d times, and its context ended %d times", begun, stopped)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A member that cannot get warm is given none of the shards that others own; one that can is.
func TestAMemberThatFailsToWarm(t *testing.T) {
	for name, w := range map[string]*warmth{"fails": {fails: errors.New("cache")}, "panics": {panics: true}} {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				g := newGroup(t, c, 8)
				g.join("a")
				g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "a") })
				g.join("b", w.config)
				time.Sleep(lease)
				if !g.l.even(8, "a") {
					t.Errorf("beside a member that fails: %v", g.l.counts())
				}
				// For each shard once until its Cooldown is over; longer each time.
				if begun, _, _ := w.counts(); begun < 4 || begun > 16 {
					t.Errorf("Warm was called %d times in a lease", begun)
				}
				g.join("c", (&warmth{takes: time.Second}).config)
				g.eventually(lease, "c has shards", func() bool { return g.l.counts()["c"] >= 4 })
			})
		})
	}
}

// A death is not waited for: what the dead member owned goes on without Warm, also where
// that runs for a move which was planned before.
func TestADeathWaitsForNoWarmth(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 9)
		w := warmth{takes: 10 * lease}
		longer := func(cfg *shard.Config) { cfg.WarmTimeout = 10 * lease }
		g.join("a", w.config, longer)
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(9, "a") })
		g.join("b", w.config, longer)
		time.Sleep(lease)
		begun, _, _ := w.counts()
		if !g.l.even(9, "a") || begun == 0 {
			t.Fatalf("before the death: %v, and Warm was called %d times", g.l.counts(), begun)
		}
		c.Each(testredis.Cut, "a")
		g.eventually(lease+time.Second, "the other member has all", func() bool { return g.l.even(9, "b") })
		time.Sleep(time.Second)
		if again, _, stopped := w.counts(); again != begun || stopped != begun {
			t.Errorf("Warm was called %d times before the death and %d times in all, and stopped %d times", begun, again, stopped)
		}
	})
}
