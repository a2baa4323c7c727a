package shard_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

func TestRead(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		q := c.Quorum("reader")
		if _, err := shard.Read(t.Context(), q, "orders"); !errors.Is(err, shard.ErrNoGroup) {
			t.Errorf("before the first member: %v", err)
		}
		g := newGroup(t, c, 12)
		g.join("a", func(cfg *shard.Config) { cfg.Weight = 2; cfg.Version = "1.2.3" })
		b := g.join("b")
		time.Sleep(lease)
		st, err := shard.Read(t.Context(), q, "orders")
		must(t, err)
		if st.Shards != 12 || st.Lease != lease || len(st.Members) != 2 || len(st.Unowned) != 0 || len(st.Moving) != 0 || st.Assigner == "" {
			t.Errorf("%+v", st)
		}
		a := st.Members[0]
		if a.ID != "a" || len(a.Owned) != 8 || !slices.Equal(a.Owned, a.Planned) || a.Due != 8 || a.Version != "1.2.3" || a.Weight != 2 || a.Closed != "" {
			t.Errorf("%+v", a)
		}
		text, err := json.Marshal(st)
		if err != nil || !strings.Contains(string(text), `"lease_ms":10000`) || !strings.Contains(string(text), `"unowned":[]`) {
			t.Errorf("%s, %v", text, err)
		}

		c.Nodes[0].Server().Del("mandate:{orders#assigner}:lock") // until the next renewal
		c.Nodes[1].Set(testredis.Down, "reader")
		if st, err := shard.Read(t.Context(), q, "orders"); err != nil || st.Assigner == "" {
			t.Errorf("who assigns depends on a node that is down: %+v, %v", st, err)
		}
		c.Nodes[1].Set(testredis.Fault{}, "reader")

		c.Each(testredis.Cut, "b")
		time.Sleep(lease * 6 / 10)
		if st, err = shard.Read(t.Context(), q, "orders"); err != nil {
			t.Fatal(err)
		}
		if len(st.Unowned) != 4 || st.Unowned[0].Next != "a" || !strings.Contains(st.Unowned[0].Why, "the lease of its last owner may still run") {
			t.Errorf("after b's death: %+v", st)
		}
		if len(st.Missing) != 1 || st.Missing[0].ID != "b" || time.Since(st.Missing[0].Since) > lease {
			t.Errorf("b is missing: %+v", st.Missing)
		}
		time.Sleep(9 * time.Minute)
		if st, err = shard.Read(t.Context(), q, "orders"); err != nil || len(st.Missing) != 1 || len(st.Members) != 1 || len(st.Members[0].Owned) != 12 {
			t.Errorf("nine minutes later: %+v, %v", st, err)
		}
		time.Sleep(2 * time.Minute)
		if st, err = shard.Read(t.Context(), q, "orders"); err != nil || len(st.Missing) != 0 {
			t.Errorf("eleven minutes later: %+v, %v", st.Missing, err)
		}
		b.stop()
	})
}

func TestReadWithoutRedis(t *testing.T) {
	grouped(t, 3, 4, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.join("a")
		time.Sleep(lease)
		q := c.Quorum("reader")
		c.Nodes[0].Set(testredis.Frozen, "reader")
		st, err := shard.Read(t.Context(), q, "orders")
		if err != nil || len(st.Problems) != 1 || len(st.Members) != 1 {
			t.Errorf("with a hung node of three: %+v, %v", st, err)
		}
		c.Nodes[1].Set(testredis.Frozen, "reader")
		began := time.Now()
		node := &elector.NodeError{}
		if _, err = shard.Read(t.Context(), q, "orders"); !errors.Is(err, elector.ErrUnreachable) || !errors.As(err, &node) {
			t.Errorf("with two hung nodes of three: %v", err)
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}
