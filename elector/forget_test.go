package elector_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
)

func TestForgetRemovesAllTraces(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		orders := electionOf(op, "orders")
		a := c.Start("a")
		before := a.Elected(3 * shortLease).Token()
		if err := orders.Pause(t.Context(), 0, "for good"); err != nil {
			t.Fatal(err)
		}
		a.Shutdown()
		if names, err := op.Elections(t.Context()); err != nil || !slices.Equal(names, []string{"orders"}) {
			t.Fatalf("%q, %v", names, err)
		}
		for range 2 { // what is forgotten already is no error
			if err := orders.Forget(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if names, err := op.Elections(t.Context()); err != nil || len(names) != 0 {
			t.Errorf("%q, %v", names, err)
		}
		for _, n := range c.Nodes {
			if keys := n.Server().Keys(); len(keys) > 0 {
				t.Errorf("%s keeps %q", n.Addr, keys)
			}
		}
		b := c.Start("b")
		if after := b.Elected(5 * shortLease).Token(); after <= before {
			t.Errorf("token %d after %d", after, before)
		}
	})
}

func TestForgetIsRefusedWhileACandidateIsThere(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		orders := electionOf(c.Quorum("operator"), "orders")
		refused := func(want string) {
			t.Helper()
			before := len(c.Nodes[0].Server().Keys())
			if err := orders.Forget(t.Context()); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if after := len(c.Nodes[0].Server().Keys()); after < before {
				t.Errorf("%d keys are left of %d", after, before)
			}
		}
		a := c.Start("a")
		a.Elected(3 * shortLease)
		refused("there are candidates: a; stop them first")
		for _, n := range c.Nodes {
			n.Set(frozen, "a") // its subscription remains on the server
		}
		refused("is subscribed and does not answer")
		time.Sleep(2 * shortLease) // its lock has lapsed
		refused("is subscribed and does not answer")
		for _, n := range c.Nodes {
			n.Heal()
		}
		a.Shutdown()
		_ = c.Nodes[0].Server().Set(lockKey, "batch job 7")
		refused("which no candidate wrote")
		c.Nodes[0].Server().Del(lockKey)
		_ = c.Nodes[0].Server().Set(lockKey, "z/INCARNATION/1 n=1 lease=1000 token=1")
		refused("holds a lock of this election")
	})
}

// One node that is missed would bring the election back into every list.
func TestForgetNeedsAllNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		orders := electionOf(c.Quorum("operator"), "orders")
		a := c.Start("a")
		a.Elected(3 * shortLease)
		a.Shutdown()
		c.Nodes[2].Set(down)
		err := orders.Forget(t.Context())
		var failed *elector.QuorumError
		if !errors.As(err, &failed) || len(failed.Nodes) != 1 || errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("with a node down: %v", err)
		}
		if !strings.Contains(err.Error(), "nothing was removed") {
			t.Errorf("it does not say that nothing was removed: %v", err)
		}
		if len(c.Nodes[0].Server().Keys()) == 0 {
			t.Error("something is forgotten, although not everywhere")
		}
		c.Nodes[1].Set(down)
		if err := orders.Forget(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("with two nodes down: %v", err)
		}
	})
}

// A candidate that is elected between the last look and the removal keeps its lock, and all that
// the node knows with it.
func TestForgetLeavesANewLeader(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		orders := electionOf(c.Quorum("operator"), "orders")
		a := c.Start("a")
		a.Elected(3 * shortLease)
		a.Shutdown()
		n := c.Nodes[0]
		keys := len(n.Server().Keys())
		n.On(func(c call, _ *server.Peer) bool {
			if c.Script == "looked" {
				_ = n.Server().Set(lockKey, "b/INCARNATION/1 n=1 lease=1000 token=1")
			}
			return false
		})
		want := "elector: refused: a candidate was elected meanwhile"
		if len(c.Nodes) == 3 {
			want += "; removed from " + c.Nodes[1].Addr + ", " + c.Nodes[2].Addr
		}
		if err := orders.Forget(t.Context()); !errors.Is(err, elector.ErrRefused) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if left := len(n.Server().Keys()); left != keys+1 {
			t.Errorf("%d keys are left of %d and the lock", left, keys)
		}
	})
}
