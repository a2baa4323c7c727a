package elector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

func TestHungMinorityNodeCostsNothing(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				c.Each(fault{Delay: 200 * time.Microsecond})
				c.Seed()
				for _, nd := range c.Nodes[n/2+1:] {
					nd.Set(frozen)
				}
				leader := c.Start("c0")
				term := leader.Elected(time.Second)
				all := []*candidate{leader}
				for i := range 3 {
					all = append(all, c.Start(fmt.Sprintf("c%d", i+1)))
				}
				for len(all) > 1 {
					time.Sleep(3 * shortLease) // renewals
					if !term.Valid() {
						t.Fatalf("the term was lost: %v", term.Err())
					}
					began := time.Now()
					leader.Stop()
					all = others(all, leader)
					next, after := first(t, time.Second, all...)
					gap := time.Since(began)
					if gap > 50*time.Millisecond {
						t.Errorf("handover among %d took %v", len(all), gap)
					}
					if err := leader.Ended(time.Second); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("shutdown took %v", took)
					}
					if after.Token() <= term.Token() {
						t.Errorf("token %d after %d", after.Token(), term.Token())
					}
					leader, term = next, after
				}
				if n := len(leader.Log.Lines("redis node is not responding")); n != len(c.Nodes)/2 {
					t.Errorf("the hung nodes were reported %d times", n)
				}
			})
		})
	}
}

func TestHungNodeFromTheStart(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Nodes[1].Set(frozen)
		a := c.Start("a")
		a.Elected(2 * shortLease) // nodes that know nothing vote after a lease
		st, err := electionOf(a.Q, "orders").Status(t.Context())
		if err != nil || st.Leader == nil || st.Leader.Candidate != "a" {
			t.Fatalf("status %+v, %v", st, err)
		}
		if n := st.Nodes[1]; n.Reachable || n.Error == "" {
			t.Errorf("the hung node: %+v", n)
		}
		if err := a.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
}

var brokenNodes = map[string]struct {
	hurt, repair func(*node)
	says         string
}{
	"refused":  {func(n *node) { n.Set(down) }, (*node).Heal, "connection refused"},
	"LOADING":  {func(n *node) { n.RefuseWith("LOADING Redis is loading the dataset in memory") }, func(n *node) { n.RefuseWith("") }, "LOADING"},
	"READONLY": {func(n *node) { n.RefuseWith("READONLY You can't write against a read only replica.") }, func(n *node) { n.RefuseWith("") }, "READONLY"},
	"foreign counter": {
		func(n *node) { _ = n.Server().Set("mandate:{orders}:fence", "twelve") }, func(n *node) { n.Server().Del("mandate:{orders}:fence") },
		"see what it holds with redis-cli TYPE mandate:{orders}:fence, and GET mandate:{orders}:fence if that is a string",
	},
	"NOAUTH": {
		func(n *node) { n.Server().RequireAuth("secret"); n.Reset("") },
		func(n *node) { n.Server().RequireAuth(""); n.Reset("") }, "give the password",
	},
}

func TestBrokenNode(t *testing.T) {
	for name, tc := range brokenNodes {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				tc.hurt(c.Nodes[2])
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				time.Sleep(20 * shortLease)
				if !term.Valid() {
					t.Fatalf("lost: %v", term.Err())
				}
				title, other := "redis node answered with an error", "redis node is not responding"
				if name == "refused" {
					title, other = other, title
				}
				logged := a.Log.Lines(title, "127.0.0.1:7003", tc.says)
				if len(logged) != 1 || len(a.Log.Lines(title)) != 1 || len(a.Log.Lines(other)) != 0 {
					t.Errorf("want it logged once: %q", a.Log.Lines("WARN"))
				}
				tc.repair(c.Nodes[2])
				time.Sleep(2 * shortLease)
				if len(a.Log.Lines("responds again", "127.0.0.1:7003")) != 1 {
					t.Error("its return was not logged")
				}
				if c.Locks() != 3 || !term.Valid() {
					t.Errorf("%d locks, valid %v", c.Locks(), term.Valid())
				}
			})
		})
	}
}

// Regression: a candidate whose nodes refused its claims said that they had not answered. What
// each node did decides what it says, to a leader and to a follower.
func TestCannotCampaignNamesWhatTheNodesDid(t *testing.T) {
	const (
		away    = "no majority of the Redis nodes answered: "
		refuse  = "a majority of the Redis nodes answered with an error: "
		useless = "no majority of the Redis nodes can be used: "
		rights  = "the Redis user lacks a right: "
		full    = "OOM command not allowed when used memory > 'maxmemory'."
		noperm  = "NOPERM this user has no permissions to run the 'evalsha' command"
	)
	answers := func(err string, nodes ...int) func(*cluster) {
		return func(c *cluster) {
			for _, i := range nodes {
				c.Nodes[i].RefuseWith(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		hurt   func(*cluster)
		says   string
		denied bool
	}{
		"all refuse":             {answers(full, 0, 1, 2), refuse, false},
		"two refuse":             {answers(full, 0, 2), refuse, false},
		"no right":               {answers(noperm, 0, 1, 2), rights, true},
		"a right and a memory":   {func(c *cluster) { answers(noperm, 0)(c); answers(full, 1)(c) }, refuse, false},
		"one refuses, one is up": {func(c *cluster) { answers(full, 0)(c); c.Nodes[1].Set(down) }, useless, false},
		"one refuses, two hang":  {func(c *cluster) { answers(full, 0)(c); c.Nodes[1].Set(frozen); c.Nodes[2].Set(frozen) }, away, false},
		"all are down":           {func(c *cluster) { c.Each(down) }, away, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a, b, _ := pair(t, c)
				tc.hurt(c)
				time.Sleep(3 * shortLease) // more than one renewal and one claim
				for _, x := range []*candidate{a, b} {
					err := x.Check()
					if text := elector.Problem(err); !strings.HasPrefix(text, tc.says) || !errors.Is(err, elector.ErrUnreachable) || errors.Is(err, elector.ErrDenied) != tc.denied {
						t.Errorf("%s: Check: %v", x.ID(), err)
					}
					if all := x.Log.Lines("cannot campaign"); len(all) != 1 || !strings.Contains(all[0], tc.says) {
						t.Errorf("%s logged %q", x.ID(), all)
					}
				}
			})
		})
	}
}

// A node that answers with an error is up: whoever is called looks at its answer, and not
// at the network.
func TestBrokenNodeIsNotDown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		brokenNodes["foreign counter"].hurt(c.Nodes[0])
		brokenNodes["foreign counter"].hurt(c.Nodes[1])
		c.Nodes[2].Set(down)
		st, err := electionOf(c.Quorum("status"), "orders").Status(t.Context())
		if !errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "a majority of the Redis nodes answered with an error") ||
			!strings.Contains(err.Error(), brokenNodes["foreign counter"].says) {
			t.Errorf("status: %v", err)
		}
		for i, n := range st.Nodes {
			if n.Reachable || n.Error == "" || n.Answered != (i < 2) {
				t.Errorf("node %d: %+v", i, n)
			}
		}
		brokenNodes["foreign counter"].repair(c.Nodes[1])
		c.Nodes[1].Set(down)
		if _, err := electionOf(c.Quorum("one"), "orders").Status(t.Context()); err == nil || !strings.Contains(err.Error(), "no majority of the Redis nodes answered") {
			t.Errorf("two of three are down: %v", err)
		}
	})
}

func TestNodeDownAtTheStart(t *testing.T) {
	for name, tc := range brokenNodes {
		for _, n := range []int{1, 3} {
			if name == "NOAUTH" || name == "foreign counter" {
				continue // waiting would not cure it
			}
			t.Run(fmt.Sprintf("%s/n=%d", name, n), func(t *testing.T) {
				bubble(t, n, func(t *testing.T, c *cluster) {
					for _, nd := range c.Nodes {
						tc.hurt(nd)
					}
					a := c.Start("a")
					a.Quiet(30 * shortLease)
					if err := a.Check(); !errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), tc.says) {
						t.Errorf("Check: %v", err)
					}
					if lines := a.Log.Lines("cannot campaign", tc.says); len(lines) != 1 {
						t.Errorf("logged %d times", len(lines))
					}
					if lines := a.Log.Lines(""); len(lines) > 5+n+2*(1+n) { // two reminders of each
						t.Errorf("the log floods: %d lines", len(lines))
					}
					if _, err := a.Election().Leader(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
						t.Errorf("Leader: %v", err)
					}
					for _, nd := range c.Nodes {
						tc.repair(nd)
					}
					a.Elected(2 * shortLease)
					if err := a.Check(); err != nil {
						t.Errorf("Check: %v", err)
					}
					if len(a.Log.Lines("can campaign again")) != 1 {
						t.Error("its end was not logged")
					}
				})
			})
		}
	}
}

// The very first election with a node down takes a lease, and the log says why.
func TestFirstElectionWithANodeDownNamesWhatItWaitsFor(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Nodes[0].Set(down)
		a := c.Start("a")
		a.Elected(2 * shortLease)
		if lines := a.Log.Lines("waiting for nodes that abstain", "nodes=2"); len(lines) != 1 {
			t.Errorf("logged %d times: %v", len(lines), lines)
		}
	})
}

// The application holds every connection of its own client: ours are not among them.
func TestExhaustedPoolOfTheApplicationCostsNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		app := c.Client("app", 0)
		defer app.Close()
		app.Options().PoolSize = 1
		app = redis.NewClient(app.Options())
		defer app.Close()
		held := app.Conn()
		defer held.Close()
		if err := held.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		q, err := elector.NewQuorum(app)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		a := makeCandidate(t, q, "a").Begin(nil)
		term := a.Elected(time.Second)
		time.Sleep(10 * shortLease)
		if !term.Valid() {
			t.Errorf("lost: %v", term.Err())
		}
		if lines := a.Log.Lines("WARN"); len(lines) > 0 {
			t.Errorf("%q", lines)
		}
	})
}

// Two votes of one server would make a majority that is none.
func TestSameServerUnderTwoNames(t *testing.T) {
	t.Run("all three", func(t *testing.T) { bubble(t, 1, func(t *testing.T, c *cluster) { wantTwins(t, c, 0, 0, 0) }) })
	t.Run("two of three", func(t *testing.T) { bubble(t, 2, func(t *testing.T, c *cluster) { wantTwins(t, c, 0, 0, 1) }) })
	t.Run("two of five", func(t *testing.T) { bubble(t, 4, func(t *testing.T, c *cluster) { wantTwins(t, c, 0, 1, 2, 2, 3) }) })
}

// wantTwins makes a quorum of the numbered nodes, each under an address of its
// own, and wants it to be refused.
func wantTwins(t *testing.T, c *cluster, nodes ...int) {
	t.Helper()
	var clients []redis.UniversalClient
	for i, nd := range nodes {
		cl := c.Client("a", nd)
		cl.Options().Addr = fmt.Sprintf("10.0.0.%d:6379", i+1)
		defer cl.Close()
		clients = append(clients, cl)
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	a := makeCandidate(t, q, "a").Begin(nil)
	err = a.EndedOrElected(3 * shortLease)
	if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "listed twice") {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "10.0.0.") {
		t.Errorf("error %q does not say which", err)
	}
}
