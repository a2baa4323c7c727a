package shard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

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
		m, err := shard.New(c.Quorum("a"), shard.Config{Group: "orders", Shards: 4, ID: "a", Lease: lease, Logger: g.log.Logger(), Probe: probe})
		if err != nil {
			t.Fatal(err)
		}
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
