package simtest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// node is one Redis server.
type node struct {
	id    int
	addr  string
	redis *miniredis.Miniredis
	admin *redis.Client // past all faults
	rate  float64       // how much faster its clock runs than true time
	last  time.Time     // when the rate was last applied

	// under network.mu
	up   bool
	hung bool

	// under Sim.mu
	forgot time.Time // when it last lost everything
}

func newNode(id int, rate float64) *node {
	n := &node{id: id, addr: fmt.Sprintf("127.0.0.1:%d", 7001+id), redis: miniredis.NewMiniRedis(), rate: rate, up: true, last: time.Now()}
	n.redis.ClockTTL(true)
	n.admin = redis.NewClient(&redis.Options{
		Addr: n.addr, DisableIdentity: true, MaxRetries: -1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return n.redis.Dial() },
	})
	return n
}

func (n *node) close() {
	_ = n.admin.Close()
	n.redis.Close()
}

// drift moves the node's clock away from true time.
func (n *node) drift() {
	now := time.Now()
	if n.rate != 0 {
		n.redis.FastForward(time.Duration(float64(now.Sub(n.last)) * n.rate))
	}
	n.last = now
}

// restart is what a crash and a restart do to the data; connections are the
// network's business.
func (n *node) restart(empty bool) {
	n.redis.SetError("")
	n.admin.ScriptFlush(context.Background())
	if empty {
		n.redis.FlushAll()
	}
}

// holds reports whether the node's lock is held by one whose value begins so.
func (n *node) holds(keys protocol.Keys, prefix string) bool {
	v, err := n.redis.Get(keys.Lock)
	return err == nil && prefix != "" && strings.HasPrefix(v, prefix)
}
