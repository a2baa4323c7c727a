package elector_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// Addresses behind which several servers answer that do not replicate: no lock can hold there. How they choose:
var balancers = map[string]func(c *cluster){
	"each connection in turn": func(c *cluster) {
		i := 0
		c.Nodes[0].Balance(func() *node { i++; return c.Nodes[i%2] })
	},
	"each connection in turn, three servers": func(c *cluster) {
		i := 0
		c.Nodes[0].Balance(func() *node { i++; return c.Nodes[i%3] })
	},
	"each connection by lot": func(c *cluster) {
		rng := rand.New(rand.NewPCG(1, 2))
		c.Nodes[0].Balance(func() *node { return c.Nodes[rng.IntN(2)] })
	},
	"some commands": func(c *cluster) {
		i := 0
		c.Nodes[0].On(func(cl call, p *server.Peer) bool {
			if i++; cl.Script == "looked" || i%5 > 1 {
				return false
			}
			c.Nodes[0].RunAt(c.Nodes[1], cl, p)
			return true
		})
	},
}

func TestSeveralServersBehindOneAddress(t *testing.T) {
	for name, balance := range balancers {
		for _, seeded := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, c *cluster) {
					if seeded {
						for i := range c.Nodes {
							s := c.StartOn("seed", []int{i})
							s.Elected(3 * shortLease)
							s.Shutdown()
						}
					}
					balance(c)
					all := []*candidate{c.StartOn("a", []int{0}), c.StartOn("b", []int{0}), c.StartOn("d", []int{0})}
					const look = shortLease / 500
					var both, row, most, late time.Duration
					for at := time.Duration(0); at < 30*shortLease; at += look {
						time.Sleep(look)
						n := 0
						for _, x := range all {
							if x.IsLeader() {
								n++
							}
						}
						if row += look; n < 2 {
							row = 0
						} else {
							both += look
						}
						if most = max(most, row); n > 0 && at > 10*shortLease {
							late += look
						}
					}
					t.Logf("two lead for %v, for %v at most without a break; one leads for %v of the last 20 leases", both, most, late)
					if most > shortLease*5/4 || both > 2*shortLease || late > 2*shortLease && strings.Contains(name, "turn") {
						t.Error("candidates lead beside each other, or again and again")
					}
					for _, x := range all {
						if lines := x.Log.Lines("cannot campaign", "127.0.0.1:7001 leads to several servers (identities ", "): give the address of one"); len(lines) == 0 || len(lines) > 3 && strings.Contains(name, "turn") {
							t.Errorf("%s logged %d times: %v", x.ID(), len(lines), x.Check())
						}
					}
					c.Nodes[0].Balance(nil)
					c.Nodes[0].On(nil)
					first(t, 6*shortLease, all...)
				})
			})
		}
	}
}
