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
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Each(fault{Delay: 200 * time.Microsecond})
		c.Seed()
		for _, nd := range c.Nodes[2:] {
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

func TestNodeDownAtTheStart(t *testing.T) {
	for name, tc := range brokenNodes {
		if name == "NOAUTH" || name == "foreign counter" {
			continue // waiting would not cure it
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
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
				if lines := a.Log.Lines(""); len(lines) > 5+3+2*(1+3) { // two reminders of each
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
