package shard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// Every process of every version must come to the same shard.
func TestOfIsStable(t *testing.T) {
	for key, want := range map[string]int{"": 129, "a": 604, "customer-17": 658, "customer-18": 728, "日本": 148} {
		if got := shard.Of(key, 1024); got != want {
			t.Errorf("Of(%q, 1024) is %d, it was %d", key, got, want)
		}
	}
}

// A member that can release nothing says so: its shards were without an owner until their
// leases' end, which whoever restarts it must be able to see.
func TestShardsThatWereNotReleased(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 4)
		a := g.join("a")
		g.eventually(2*time.Second, "all are a's", func() bool { return g.l.even(4, "a") })
		c.Each(testredis.Cut, "a")
		a.stop()
		err := a.ended(t, 3*lease)
		if !errors.Is(err, elector.ErrNotReleased) || !strings.Contains(err.Error(), "4 shards were not released") {
			t.Errorf("%v", err)
		}
		c.Heal()

		b := g.join("b")
		g.eventually(2*lease, "all are b's", func() bool { return g.l.even(4, "b") })
		b.stop()
		if err := b.ended(t, 3*lease); err != nil {
			t.Errorf("after a release: %v", err)
		}
	})
}

// Check fails for what keeps a member from being given shards, and for nothing else.
func TestCheck(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 4)
		var broken atomic.Bool
		probe := health.Func(func(context.Context) error {
			if broken.Load() {
				return errors.New("disk full")
			}
			return nil
		})
		m := g.member("a", func(cfg *shard.Config) { cfg.Probe = probe })
		check := func(when, want string) {
			t.Helper()
			if err := m.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", when, err, want)
			}
		}
		check("before Run", "not running")
		r := g.run(m, failing(3, errors.New("broken")))
		time.Sleep(lease)
		check("well, with a shard that fails", "")
		if m.Term(0) == nil || m.Term(0).Shard != 0 || m.Term(3) != nil || m.Term(-1) != nil {
			t.Errorf("terms: %v, %v", m.Term(0), m.Term(3))
		}
		broken.Store(true)
		time.Sleep(2 * lease)
		check("unhealthy", "disk full")
		broken.Store(false)
		time.Sleep(3 * lease)
		check("healthy again", "")
		c.Each(testredis.Cut, "a")
		time.Sleep(lease)
		check("cut off", "no majority of the Redis nodes answers")
		if m.Term(0) != nil {
			t.Error("it owns a shard, and is cut off")
		}
		r.stop()
		time.Sleep(2 * lease)
		check("after Run", "not running")
	})
}
