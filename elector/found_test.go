package elector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// These tests fail because of bugs outside of the tests, as of their writing.

// A leader that won with its first claim ever counts as one that never worked.
func TestPasswordRotatedUnderARunningElection(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.start("a"), c.start("b")
		_, term := first(t, 3*shortLease, a, b)
		time.Sleep(shortLease)
		for _, nd := range c.nodes {
			nd.server().RequireAuth("new")
			nd.reset("") // CLIENT KILL
		}
		wantReason(t, term, shortLease, elector.ReasonExpired)
		time.Sleep(20 * shortLease)
		for _, x := range []*candidate{a, b} {
			select {
			case <-x.done:
				t.Fatalf("%s: Run ended: %v", x.ID(), x.result)
			default:
			}
			if err := x.Check(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
				t.Errorf("%s: Check: %v", x.ID(), err)
			}
			if n := len(x.log.lines("cannot campaign")); n != 1 {
				t.Errorf("%s: said %d times", x.ID(), n)
			}
			if n := len(x.log.lines("")); n > 16 {
				t.Errorf("%s: the log floods: %d lines", x.ID(), n)
			}
		}
		for _, nd := range c.nodes {
			nd.server().RequireAuth("")
			nd.reset("")
		}
		if _, next := first(t, shortLease, a, b); next.Token() <= term.Token() {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
	})
}

// The round ends with the majority's yes: the answer of the node that shows the
// other candidate is not awaited, and two terms are valid at once.
func TestRefusesToLeadUnderAnotherNumberOfNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		one := c.client("old", 0)
		defer one.Close()
		q, err := elector.NewQuorum(one)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		a := makeCandidate(t, q, "a").run(nil)
		term := a.elected(3 * shortLease)
		time.Sleep(shortLease)
		// The new deploy counts three nodes; two of them are free, a majority.
		b := c.start("b")
		defer never2(t, a, b)()
		b.quiet(10 * shortLease)
		err = b.Check()
		if err == nil || !strings.Contains(err.Error(), "a holds the lock and counts 1 Redis nodes, this candidate 3") {
			t.Errorf("Check: %v", err)
		}
		if !term.Valid() {
			t.Errorf("the leader suffered: %v", term.Err())
		}
		// When the old ones are gone, the new ones may.
		a.shutdown()
		b.elected(3 * shortLease)
	})
}

func TestSameServerUnderTwoNames(t *testing.T) {
	t.Run("all three", func(t *testing.T) { bubble(t, 1, func(t *testing.T, c *cluster) { wantTwins(t, c, 0, 0, 0) }) })
	t.Run("two of three", func(t *testing.T) { bubble(t, 2, func(t *testing.T, c *cluster) { wantTwins(t, c, 0, 0, 1) }) })
	t.Run("two of five", func(t *testing.T) { bubble(t, 4, func(t *testing.T, c *cluster) { wantTwins(t, c, 0, 1, 2, 2, 3) }) })
}

// The elections of a fresh set of nodes: all must be seen to be new, but the
// round ends before the last has answered.
func TestFirstElectionIsAtOnceOnUnevenNodes(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				for i, nd := range c.nodes {
					nd.set(fault{delay: time.Duration(100+50*i) * time.Microsecond}) // no two nodes are equally fast
				}
				c.start("a").elected(time.Second)
			})
		})
	}
}

func TestIsLeaderRightAfterCampaign(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.quorum("a"), "a")
		for range 20 {
			term, err := a.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leads, own := a.IsLeader(), a.Term()
			if err := term.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !leads || own != term {
				t.Fatalf("Campaign returned, IsLeader is %v and Term is %v", leads, own)
			}
		}
	})
}

// On events the winner's "elected" overtakes the "released" before it: whoever
// hears that claims, although a leader is known.
func TestReleaseCostsFewClaims(t *testing.T) {
	for n, crowd := range map[int]int{1: 100, 3: 40} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				leader := c.start("leader")
				leader.elected(3 * shortLease)
				var all []*candidate
				for i := range crowd {
					all = append(all, c.start(fmt.Sprintf("f%d", i)))
				}
				time.Sleep(3 * shortLease)
				began := time.Now()
				leader.shutdown()
				first(t, time.Second, all...)
				time.Sleep(50 * time.Millisecond)
				if claims, _ := c.nodes[0].claims(began); claims > 20 {
					t.Errorf("%d claims for one release", claims)
				}
			})
		})
	}
}

// After such a needless claim releases are not believed for a sixteenth of a
// lease: a second hand-over soon after the first takes until the lease's end.
func TestTwoHandoversInQuickSuccession(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				for round := range 10 {
					var all []*candidate
					for i := range 5 {
						all = append(all, c.start(fmt.Sprintf("r%d-%d", round, i)))
					}
					leader, _ := first(t, 3*shortLease, all...)
					time.Sleep(2 * shortLease)
					for len(all) > 1 {
						began := time.Now()
						leader.stop()
						all = others(all, leader)
						next, term := first(t, 2*shortLease, all...)
						if gap := term.Since().Sub(began); gap > 100*time.Millisecond {
							t.Errorf("round %d, %d left: %v without a leader", round, len(all), gap)
						}
						leader.ended(time.Second)
						leader = next
						time.Sleep(50 * time.Millisecond)
					}
					leader.shutdown()
				}
			})
		})
	}
}

// A forged "released" on a minority, or shortly before a true one, makes the
// followers deaf to the true one.
func TestForgedReleaseDelaysNoTrueOne(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				a := c.start("a")
				a.elected(3 * shortLease)
				b := c.start("b")
				b.quiet(shortLease + time.Second)
				c.nodes[0].server().Publish("mandate:{orders}:events", `{"v":1,"kind":"released","election":"orders","token":9007199254740991}`)
				c.nodes[0].server().Publish("mandate:{orders}:wake", "released 9007199254740991 evil")
				b.quiet(100 * time.Millisecond)
				a.stop()
				began := time.Now()
				term := b.elected(2 * shortLease)
				if gap := term.Since().Sub(began); gap > shortLease/16+100*time.Millisecond {
					t.Errorf("%v without a leader", gap)
				}
			})
		})
	}
}

// An observer that asks in the moment of a release reports Vacant, and then drops
// the release with its reason.
func TestReleasesAreObservedWithTheirReason(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		bystander := makeCandidate(t, c.quorum("bystander"), "bystander")
		outside := watch(t, bystander)
		next(t, outside, time.Second)
		bad := map[string]int{}
		const rounds = 100
		for i := range rounds {
			a := makeCandidate(t, c.quorum(fmt.Sprint("a", i)), "a")
			own := watch(t, a)
			a.run(nil)
			a.elected(3 * shortLease)
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			a.shutdown()
			for name, ch := range map[string]<-chan elector.Event{"outside": outside, "own": own} {
				for {
					ev := next(t, ch, 3*shortLease)
					if ev.Kind == elector.EventVacant && ev.Token != 0 {
						bad[name]++
						break
					}
					if ev.Kind == elector.EventReleased {
						break
					}
				}
			}
			for len(outside) > 0 {
				<-outside
			}
		}
		if len(bad) > 0 {
			t.Errorf("of %d releases reported as Vacant, without a reason: %v", rounds, bad)
		}
	})
}

// A part of a password with a # or / is parsed as the port, and repeated.
func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	for _, url := range []string{
		"redis://user:hunter2#x@h:6379", "redis://:hunter2/x@h:6379", "redis://user:hunter2?x@h:6379", "rediss://:hunter2%zz@h:6379",
		"redis+sentinel://user:hunter2/x@h:6379", "redis://user:%hunter2@h",
	} {
		_, err := elector.Open(url)
		if err == nil {
			t.Errorf("%s was accepted", url)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "hunter") || strings.Contains(e.Error(), "%hu") || strings.Contains(e.Error(), "%zz") {
				t.Errorf("error %q shows (a part of) the password", e)
			}
		}
	}
}

// go-redis says "i/o timeout", with ports of the moment, not context.DeadlineExceeded.
func TestHungNodeIsNoAnswerInTime(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.quorum("a")
		if _, err := electionOf(q, "orders").Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.nodes[0].set(frozen)
		if _, err := electionOf(q, "orders").Status(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer in time") {
			t.Errorf("got %v", err)
		}
	})
}

// Candidates that start at once split the votes; each partial grant is given back
// at once, but the losers wait for the end of its lease.
func TestSplitVoteCostsNoLease(t *testing.T) {
	for _, hung := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d of 3 hung", hung), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.seed()
				for _, nd := range c.nodes[:hung] {
					nd.set(frozen)
				}
				slow := 0
				for round := range 20 {
					var all []*candidate
					for i := range 4 {
						all = append(all, c.start(fmt.Sprintf("r%d-%d", round, i)))
					}
					began := time.Now()
					_, term := first(t, 3*shortLease, all...)
					if term.Since().Sub(began) > time.Second {
						slow++
					}
					for _, x := range all {
						x.stop()
					}
					for _, x := range all {
						x.ended(shortLease)
					}
					time.Sleep(2 * shortLease)
				}
				if slow > 0 {
					t.Errorf("%d of 20 elections took a lease", slow)
				}
			})
		})
	}
}

// A node slower than the others' patience still has the claim in flight when a
// short term is released: its release waits for its turn, and must not be dropped
// because the majority's is done.
func TestReleaseOnASlowNodeIsNotDropped(t *testing.T) {
	for _, delay := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.seed()
				c.nodes[2].set(fault{delay: delay})
				a := makeCandidate(t, c.quorum("a"), "a")
				boom := errors.New("boom")
				a.run(func(context.Context, *elector.Term) error { return boom })
				if err := a.ended(shortLease); !errors.Is(err, boom) {
					t.Fatal(err)
				}
				electionOf(a.q, "orders").Status(t.Context()) // the quorum lives on
				time.Sleep(10 * delay)
				if n := c.locks(); n != 0 {
					t.Errorf("%d locks were left behind", n)
				}
			})
		})
	}
}

// A node that hangs while an observer asks who leads must not hold back what this
// candidate does itself.
func TestObserverHearsItsOwnCandidateAtOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.start("a")
		term := a.elected(3 * shortLease)
		events := observe(t.Context(), a.Election())
		if ev := <-events; ev.Kind != elector.EventElected {
			t.Fatalf("%+v", ev)
		}
		elected, _ := json.Marshal(elector.Event{Version: 1, Kind: elector.EventElected, Election: "orders", Candidate: "x", Token: term.Token()})
		c.nodes[0].server().Publish("mandate:{orders}:events", string(elected)) // makes it ask
		time.Sleep(time.Millisecond)
		c.nodes[0].set(frozen, "a")
		time.Sleep(10 * time.Millisecond) // the question is open
		go func() { _ = a.Resign(context.Background()) }()
		time.Sleep(10 * time.Millisecond)
		select {
		case ev := <-events:
			if ev.Kind != elector.EventStopping {
				t.Errorf("%+v", ev)
			}
		default:
			t.Error("the end of the term is held back")
		}
	})
}
