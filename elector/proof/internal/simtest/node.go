package simtest

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// node is one Redis server.
type node struct {
	*testredis.Node

	admin *redis.Client // past all faults
	rate  float64       // how much faster its clock runs than true time
	last  time.Time     // when the rate was last applied

	// under Sim.netMu
	up   bool
	hung bool

	// under Sim.mu
	forgot time.Time // when it last lost everything
}

func (s *Sim) newNode(n *testredis.Node, rate float64) *node {
	n.Jitter = func() time.Duration { return s.share(200 * time.Microsecond) }
	admin := redis.NewClient(&redis.Options{
		Addr: n.Addr, DisableIdentity: true, MaxRetries: -1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return n.Server().Dial() },
	})
	return &node{Node: n, admin: admin, rate: rate, up: true, last: time.Now()}
}

// drift moves the node's clock away from true time.
func (n *node) drift() {
	now := time.Now()
	if n.rate != 0 {
		n.Server().FastForward(time.Duration(float64(now.Sub(n.last)) * n.rate))
	}
	n.last = now
}

// restart is what a crash and a restart do to the data; connections are the
// network's business.
func (n *node) restart(empty bool) {
	n.RefuseWith("")
	n.admin.ScriptFlush(context.Background())
	if empty {
		n.Server().FlushAll()
	}
}

// holds reports whether the node's lock is held by one whose value begins so.
func (n *node) holds(keys protocol.Keys, prefix string) bool {
	v, err := n.Server().Get(keys.Lock)
	return err == nil && prefix != "" && strings.HasPrefix(v, prefix)
}
