package fence_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// What a Cluster can't do in one step is refused before a connection is made.
func TestClusterSlotsAreChecked(t *testing.T) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			t.Error("something was sent")
			return nil, errors.New("no")
		}})
	defer c.Close()
	r := newRedis(t, c)
	err := r.Run(t.Context(), 5, push, []string{list, "{others}:list"}, "x").Err()
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "{others}") || !strings.Contains(err.Error(), "hash tag") {
		t.Errorf("%v: want the key, and what to do", err)
	}
}

// A cluster of one node answers as one of many does. Our slots must be its slots.
func TestClusterReal(t *testing.T) {
	addr := servertest.Redis(t, "--cluster-enabled", "yes").Addr()
	node := client(t, addr)
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if info, _ := node.ClusterInfo(t.Context()).Result(); strings.Contains(info, "cluster_state:ok") {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the cluster does not come up")
		}
	}
	for _, key := range []string{"", "a", "123456789", "{orders}:mark", "x{orders}y", "{}a", "a{}{b}", "{{a}}", "a}b{c", "{ä}"} {
		want, err := node.ClusterKeySlot(t.Context(), key).Result()
		if err != nil || int64(fence.Slot(key)) != want {
			t.Errorf("slot of %q: %d, the server says %d, %v", key, fence.Slot(key), want, err)
		}
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	defer c.Close()
	r := newRedis(t, c)
	if err := write(r, 5, "x"); err != nil {
		t.Fatal(err)
	}
	testfence.WantStale(t, write(r, 4, "x"), 4, 5)
	wantList(t, c, "x")
}
