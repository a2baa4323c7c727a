package console

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// redisState is the state of the Redis nodes as read by all elections. The page shows it once.
type redisState struct {
	NowMS  int64  `json:"now_ms"`          // since 1970, by this host's clock
	Known  bool   `json:"known"`           // a majority can be read
	AsOfMS int64  `json:"as_of,omitempty"` // since when a majority can't be read
	Nodes  []node `json:"nodes"`
}

// A node counts as down when its last read failed and no election could read it for nodePatience: a
// broken key of one election does not mean that the node is down.
const (
	nodePatience = 1500 * time.Millisecond
	nodesEvery   = time.Second
)

// nodeCache keeps the latest state of each node, read for any election.
type nodeCache struct {
	mu    sync.Mutex
	order []string
	nodes map[string]*nodeSeen
	whole time.Time // when a majority could last be read
}

type nodeSeen struct {
	read  time.Time // of the last successful read; zero: never
	rtt   time.Duration
	error string // of the last failed read
	fail  time.Time
}

func newNodeCache() *nodeCache { return &nodeCache{nodes: map[string]*nodeSeen{}} }

func (c *nodeCache) note(nodes []elector.NodeStatus, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		seen := c.nodes[n.Node]
		if seen == nil {
			seen = &nodeSeen{}
			c.nodes[n.Node] = seen
			c.order = append(c.order, n.Node)
		}
		if n.Reachable {
			seen.read, seen.rtt = now, n.RTT
		} else {
			seen.fail, seen.error = now, bounded(n.Error)
		}
	}
}

// state returns the state at now; false when nothing has been read yet.
func (c *nodeCache) state(now time.Time) (redisState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := redisState{NowMS: now.UnixMilli(), Nodes: []node{}}
	up := 0
	for _, name := range c.order {
		seen := c.nodes[name]
		one := node{Name: bounded(name), RTTMS: float64(seen.rtt.Round(100*time.Microsecond).Microseconds()) / 1000}
		if !seen.fail.IsZero() && !seen.fail.Before(seen.read) && (seen.read.IsZero() || now.Sub(seen.read) >= nodePatience) {
			one.Error, one.RTTMS = seen.error, 0
		} else {
			up++
		}
		s.Nodes = append(s.Nodes, one)
	}
	if s.Known = up > len(c.order)/2; s.Known {
		c.whole = now
	} else if !c.whole.IsZero() {
		s.AsOfMS = c.whole.UnixMilli()
	}
	return s, len(c.order) > 0
}

func (c *nodeCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order, c.whole = nil, time.Time{}
	clear(c.nodes)
}
