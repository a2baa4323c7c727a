package elector_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Three nodes restart without their data, one after the other, and a candidate starts
// then. While the leader renews in between it is safe; when all of them forget between
// two renewals, nobody can know: the documented overlap, which only the token covers.
func TestAllNodesForgetOneAfterTheOther(t *testing.T) {
	const renewal = shortLease / 4
	for _, gap := range []time.Duration{0, renewal / 5, renewal * 7 / 10, 2 * renewal} {
		t.Run(gap.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				one := a.Elected(3 * shortLease)
				time.Sleep(2*renewal + renewal/10)
				for i, n := range c.Nodes {
					if i > 0 {
						time.Sleep(gap)
					}
					n.Server().FlushAll() // as a restart does, without the lost connections
				}
				time.Sleep(renewal / 20)
				b := c.Start("b")
				if gap > renewal/2 { // a renewal came in between
					defer never2(t, a, b)()
					b.Quiet(shortLease / 2)
					time.Sleep(2 * shortLease)
					return
				}
				two := b.Elected(renewal / 4)
				began := time.Now()
				if !one.Valid() || two.Token() <= one.Token() {
					t.Errorf("token %d (valid %v), then %d", one.Token(), one.Valid(), two.Token())
				}
				<-one.Done()
				if overlap := time.Since(began); overlap > renewal+renewal/10 {
					t.Errorf("two leaders for %v", overlap)
				}
			})
		})
	}
}

// When all nodes forget, the history says so, and not only that the lock was gone, or that they did not answer:
// also when they come back empty after the lease.
func TestHistoryTellsThatAllNodesForgot(t *testing.T) {
	for away, detail := range map[time.Duration]string{
		0:              "all nodes lost all their data",
		2 * shortLease: "3 of 3 nodes did not answer for .*; all nodes lost all their data",
	} {
		t.Run(away.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				one := a.Elected(3 * shortLease)
				time.Sleep(shortLease)
				if away > 0 {
					c.Each(down)
				}
				time.Sleep(away)
				for _, n := range c.Nodes {
					n.Server().FlushAll()
				}
				c.Heal()
				<-one.Done()
				a.Elected(4 * shortLease)
				time.Sleep(shortLease)
				terms, err := a.Election().History(t.Context(), 5)
				if err != nil || len(terms) != 2 || !regexp.MustCompile("^"+detail+"$").MatchString(terms[1].Detail) {
					t.Errorf("%+v, %v", terms, err)
				}
			})
		})
	}
}

// A majority that forgets at once costs the term, and no candidate leads beside it: also not
// a candidate that was just started, and that can't reach the node which remembers.
func TestMajorityForgets(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		one := a.Elected(3 * shortLease)
		time.Sleep(shortLease/2 + shortLease/20)
		c.Nodes[0].Server().FlushAll()
		c.Nodes[1].Server().FlushAll()
		c.Nodes[2].Set(cut, "b")
		b := c.Start("b")
		defer never2(t, a, b)()
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		lost := time.Now()
		_, two := first(t, 3*shortLease, a, b)
		terms, err := a.Election().History(t.Context(), 5)
		if err != nil || len(terms) != 2 || terms[1].Detail != "at least 2 of 3 nodes lost all their data" {
			t.Errorf("the history says %+v, %v", terms, err)
		}
		if gap := two.Since().Sub(lost); gap < shortLease/2 || gap > shortLease*11/10 {
			t.Errorf("elected %v after the loss was noticed", gap)
		}
	})
}

// A new counter starts at the clock. Where the old one was ahead of it, only what the
// candidates remember keeps the tokens from going back.
func TestTokensGoUpAfterALossWhateverTheClock(t *testing.T) {
	for _, who := range []string{"the leader", "a follower"} {
		t.Run(who, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				ahead := time.Now().Add(30 * time.Minute).UnixMilli()
				for _, n := range c.Nodes {
					if err := n.Server().Set(fenceKey, strconv.FormatInt(ahead, 10)); err != nil {
						t.Fatal(err)
					}
				}
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				if term.Token() <= uint64(ahead) {
					t.Fatalf("token %d, the counter was %d", term.Token(), ahead)
				}
				next := a
				if who == "a follower" {
					next = c.Start("b")
					next.Quiet(shortLease / 2)
					c.Each(cut, "a")
				}
				forget(c)
				if again := next.Elected(4 * shortLease); again.Token() <= term.Token() {
					t.Errorf("token %d after %d", again.Token(), term.Token())
				}
			})
		})
	}
}

// A leader that lost its data may start the election anew, but not once its own lease is
// over: while its work ran on, another one could be elected that
// this candidate never met, and lose its data in turn.
func TestLeaderDoesNotBootstrapAfterItsLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		back := make(chan struct{})
		a := makeCandidate(t, c.Quorum("a"), "a").Begin(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			<-back
			return nil
		})
		one := a.Elected(3 * shortLease)
		time.Sleep(shortLease + shortLease/20)
		forget(c)
		wantReason(t, one, shortLease/4, elector.ReasonLost)
		forget(c)
		b := c.Start("b") // a first start: it claims at once
		two := b.Elected(shortLease / 100)
		defer never2(t, a, b)()
		time.Sleep(shortLease + shortLease/20) // just after a renewal
		forget(c)
		close(back)
		for two.Valid() {
			a.Quiet(tick)
		}
	})
}

// A failed attempt of a candidate with a fast clock leaves a high counter on a node. The
// leader learns of it by its renewals; after a loss of all data its next token must be above
// it, though its own clock is behind: also when no renewal could bring the counter back.
func TestTokensStayAboveWhatALeaderHasSeen(t *testing.T) {
	for name, resigns := range map[string]bool{"lost": false, "resigned": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				one := a.Elected(3 * shortLease)
				raised := one.Token() + uint64((10 * time.Minute).Milliseconds())
				// On a majority: a round ends with the answers of one, and this may be without any one node.
				for _, n := range c.Nodes[:len(c.Nodes)/2+1] {
					_ = n.Server().Set("mandate:{orders}:fence", fmt.Sprint(raised))
				}
				time.Sleep(shortLease)
				if resigns {
					if err := a.Resign(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				forget(c)
				<-one.Done()
				if two := a.Elected(4 * shortLease); two.Token() <= raised {
					t.Errorf("token %d after a counter of %d", two.Token(), raised)
				}
			})
		})
	}
}
