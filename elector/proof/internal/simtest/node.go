package simtest

import (
	"context"
	"fmt"
	"net"
	"slices"
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

// mayStep keeps the condition of the guarantee for each election: a step ends all keys of the node early.
func (s *Sim) mayStep(stepped *node) bool {
	if s.o.Mode == TokensOnly {
		return true
	}
	if s.group != nil {
		return !slices.ContainsFunc(s.group.shards, func(st shardState) bool { return !s.spares(stepped, st.keys) })
	}
	return s.spares(stepped, s.keys)
}

// spares reports whether a majority of the other nodes has taken
// the renewal (or claim) whose lock ends early here. Then they keep it as long as this one
// would have, but for the jitter of the network, which the drift allowance covers.
func (s *Sim) spares(stepped *node, keys protocol.Keys) bool {
	if stepped.redis.Exists(keys.New) { // it has forgotten, and must abstain for a lease
		return false
	}
	attempt, ttl := stepped.attempt(keys.Lock)
	if attempt == "" {
		return true
	}
	const jitter = time.Millisecond
	left := 0
	for _, n := range s.nodes {
		if a, t := n.attempt(keys.Lock); n != stepped && a == attempt && t >= ttl-jitter {
			left++
		}
	}
	return left > len(s.nodes)/2
}

// attempt is whose lock a node has, and for how long; "" when it is free.
func (n *node) attempt(lock string) (who string, ttl time.Duration) {
	v, err := n.redis.Get(lock)
	if err != nil {
		return "", 0
	}
	who, _, _ = strings.Cut(v, " ")
	return who, n.redis.TTL(lock)
}
