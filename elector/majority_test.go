package elector_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// never2 checks from now on, every few milliseconds, that at most one term is valid.
func never2(t *testing.T, cs ...*candidate) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
			}
			var who []string
			for _, c := range cs {
				if c.IsLeader() {
					who = append(who, c.ID())
				}
			}
			if len(who) > 1 {
				t.Errorf("two valid terms: %v", who)
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

func TestMajorityDown(t *testing.T) {
	for name, f := range map[string]fault{"refused": down, "frozen": frozen, "cut": cut} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				all := []*candidate{c.Start("a"), c.Start("b"), c.Start("c")}
				leader, term := first(t, 3*shortLease, all...)
				time.Sleep(shortLease)
				defer never2(t, all...)()
				for _, nd := range c.Nodes[:2] {
					nd.Set(f)
				}
				began := time.Now()
				wantReason(t, term, shortLease, elector.ReasonExpired)
				if d := time.Since(began); d > deadlineAfter {
					t.Errorf("led for %v without a majority", d)
				}
				if leader.IsLeader() {
					t.Error("IsLeader after the deadline")
				}
				time.Sleep(12 * shortLease)
				for _, x := range all {
					if len(x.Terms) > 0 {
						t.Fatalf("%s was elected by a minority", x.ID())
					}
					if lines := x.Log.Lines(""); len(lines) > 15+2+2*(1+2) { // the configuration, the leader, two reminders of each condition
						t.Errorf("%s: the log floods: %d lines", x.ID(), len(lines))
					}
					if x.Check() == nil {
						t.Errorf("%s is ready", x.ID())
					}
				}
				c.Heal()
				_, next := first(t, shortLease/2, all...)
				if next.Token() <= term.Token() {
					t.Errorf("token %d after %d", next.Token(), term.Token())
				}
				time.Sleep(shortLease)
				for _, x := range all {
					if err := x.Check(); err != nil {
						t.Errorf("%s: %v", x.ID(), err)
					}
				}
			})
		})
	}
}

func TestLeaderOnTheMinoritySide(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		stop := never2(t, a, b)
		c.Nodes[0].Set(cut, "b")
		c.Nodes[1].Set(cut, "a")
		c.Nodes[2].Set(cut, "a")
		began := time.Now()
		wantReason(t, term, shortLease, elector.ReasonExpired)
		if d := time.Since(began); d > deadlineAfter {
			t.Errorf("stopped only after %v", d)
		}
		two := b.Elected(shortLease)
		if d := time.Since(began); d > shortLease+shortLease/4 {
			t.Errorf("the other side elected after %v", d)
		}
		if two.Token() <= term.Token() {
			t.Errorf("token %d after %d", two.Token(), term.Token())
		}
		time.Sleep(5 * shortLease)
		c.Heal()
		time.Sleep(5 * shortLease)
		stop()
		if !two.Valid() || len(a.Terms) > 0 {
			t.Errorf("healing cost the term: %v", two.Err())
		}
		if c.Locks() != 3 {
			t.Errorf("%d locks", c.Locks())
		}
		if err := a.Check(); err != nil {
			t.Errorf("a: %v", err)
		}
	})
}

func TestNodeThatForgotGrantsNothingForALease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease)
		// The leader can't reach two of the nodes any more, and one of them
		// forgets: with that node's vote b could win beside it, at once.
		c.Nodes[1].Set(cut, "a")
		c.Nodes[2].Set(cut, "a")
		c.Nodes[1].RestartEmpty()
		c.Nodes[2].RestartEmpty()
		b := c.Start("b")
		stop := never2(t, a, b)
		began := time.Now()
		two := b.Elected(3 * shortLease)
		if d := time.Since(began); d < shortLease {
			t.Errorf("nodes that forgot voted after %v", d)
		}
		stop()
		if two.Token() <= term.Token() {
			t.Errorf("token %d after %d", two.Token(), term.Token())
		}
	})
}

func TestPlantIsNoVote(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease)
		c.Nodes[2].Set(down, "a")
		c.Nodes[1].Server().FlushAll() // no restart: a broken connection would hide the plant
		c.Nodes[0].Took()
		before := term.Deadline()
		time.Sleep(shortLease / 2)
		var renewals []time.Time
		for _, cl := range c.Nodes[0].Took() {
			if cl.Script == "renew" {
				renewals = append(renewals, cl.At)
			}
		}
		if len(renewals) < 2 {
			t.Fatalf("%d renewals", len(renewals))
		}
		// The round that planted had no majority: it is tried again soon.
		if gap := renewals[1].Sub(renewals[0]); gap > shortLease/16+10*time.Millisecond {
			t.Errorf("the plant counted as a vote: the next renewal came %v later", gap)
		}
		if !term.Valid() || !term.Deadline().After(before) {
			t.Errorf("lost: %v", term.Err())
		}
	})
}

// The clock of one node after the other is stepped beyond all that it keeps, at any moment between two renewals: the
// locks of the others hold.
func TestClocksOfNodesAreStepped(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(shortLease)
		b := c.Start("b")
		for i := range 60 {
			b.Quiet(shortLease/2 + time.Duration(i)*shortLease/240)
			c.Nodes[i%3].Server().FastForward(time.Hour)
		}
		if b.Quiet(2 * shortLease); !term.Valid() {
			t.Errorf("the term ended: %v", term.Err())
		}
	})
}
