package elector_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const cordonsKey = "mandate:cordons"

func cordon(t *testing.T, q *elector.Quorum, id string) {
	t.Helper()
	if err := q.Cordon(t.Context(), elector.Cordon{ID: id, By: "ada", Reason: "new kernel"}); err != nil {
		t.Fatal(err)
	}
}

func uncordon(t *testing.T, q *elector.Quorum, id string) {
	t.Helper()
	if ended, err := q.Uncordon(t.Context(), elector.Cordon{ID: id}); err != nil || !ended {
		t.Fatalf("uncordon %s: %t, %v", id, ended, err)
	}
}

func TestCordonedCandidateDoesNotCampaign(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				all, term, op := trio(t, c)
				a, b, d := all[0], all[1], all[2]
				cordon(t, op, "b")
				time.Sleep(shortLease / 10)
				if term.Err() != nil || b.Check() != nil || len(b.Log.Lines("cordoned, not campaigning", "by ada", "new kernel")) != 1 {
					t.Errorf("%v, %v\n%s", term.Err(), b.Check(), b.Log.Lines())
				}
				roll, err := electionOf(op, "orders").Candidates(t.Context())
				if err != nil || len(roll) != 3 || roll[1].Cordoned == nil || roll[1].Cordoned.By != "ada" || roll[1].Able() || roll[2].Cordoned != nil || !roll[2].Able() {
					t.Errorf("%+v, %v", roll, err)
				}
				if _, err := electionOf(op, "orders").Transfer(within(t, time.Minute), "b"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "cordoned") {
					t.Errorf("transfer to a cordoned candidate: %v", err)
				}
				a.Shutdown()
				d.Elected(100 * time.Millisecond) // nobody waits for b
				b.Shutdown()
				b = c.Start("b") // a restart changes nothing
				b.Quiet(shortLease)
				d.Shutdown()
				b.Quiet(3 * shortLease)
				if list, err := op.Cordons(t.Context()); err != nil || len(list) != 1 || list[0].ID != "b" || list[0].By != "ada" || list[0].Since.IsZero() {
					t.Errorf("%+v, %v", list, err)
				}
				uncordon(t, op, "b")
				b.Elected(100 * time.Millisecond)
			})
		})
	}
}

func TestCordonedLeaderKeepsItsTerm(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		op := c.Quorum("operator")
		cordon(t, op, "a")
		time.Sleep(5 * shortLease)
		if !term.Valid() {
			t.Fatalf("a cordon ended the term: %v", term.Err())
		}
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.Quiet(5 * shortLease)
		uncordon(t, op, "a")
		a.Elected(100 * time.Millisecond)
	})
}

func TestCordonOfAHostIsOfAllThere(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		c.Seed()
		op := c.Quorum("operator")
		cordon(t, op, host)
		a, b := c.Start("a"), c.Start("b")
		a.Quiet(3 * shortLease)
		b.Quiet(0)
		uncordon(t, op, host)
		first(t, 100*time.Millisecond, a, b)
	})
}

func TestCordonIsOfOnePrefix(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		cordon(t, op.Namespace("other"), "a")
		c.Start("a").Elected(3 * shortLease)
		b := makeCandidate(t, c.Quorum("b").Namespace("other"), "a").Begin(nil)
		b.Quiet(3 * shortLease)
	})
}

// A message alone is never believed, whoever has published it.
func TestForgedCordonsChangeNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		time.Sleep(shortLease)
		for _, nd := range c.Nodes {
			nd.Server().Publish(cordonsKey, `{"id":"a","by":"mallory"}`)
			nd.Server().Publish(cordonsKey, "a")
		}
		time.Sleep(shortLease)
		a.Elected(0)
		if roll, err := electionOf(a.Q, "orders").Candidates(t.Context()); err != nil || len(roll) != 1 || roll[0].Cordoned != nil {
			t.Errorf("%+v, %v", roll, err)
		}
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.Elected(3 * shortLease)
		before := c.Nodes[0].Requests()
		for range 1000 {
			c.Nodes[0].Server().Publish(cordonsKey, "a")
			time.Sleep(time.Millisecond)
		}
		if n := c.Nodes[0].Requests() - before; n > 30 {
			t.Errorf("1000 messages within a second cost %d requests", n)
		}
	})
}

// A node that is down does not end a cordon, and one alone does not make it.
func TestCordonIsOfAMajority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Nodes[2].Server().HSet(cordonsKey, "a", `{"by":"mallory"}`)
		a := c.Start("a")
		a.Elected(3 * shortLease)
		op := c.Quorum("operator")
		c.Nodes[2].Set(down)
		if err := op.Cordon(t.Context(), elector.Cordon{ID: "b"}); err == nil || errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("one node of three down: %v", err)
		}
		b := c.Start("b")
		b.Quiet(shortLease)
		c.Nodes[2].Heal()
		a.Shutdown()
		b.Quiet(3 * shortLease)
		c.Nodes[1].Set(down, "operator")
		c.Nodes[0].Set(down, "operator")
		if _, err := op.Uncordon(t.Context(), elector.Cordon{ID: "b"}); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("two of three nodes down: %v", err)
		}
		if _, err := op.Cordons(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("two of three nodes down: %v", err)
		}
	})
}

// A candidate that was cut off while it was cordoned has heard of nothing. It must read the
// cordons before it leads.
func TestCandidateThatWasCutOffReadsTheCordonsFirst(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				a.Elected(3 * shortLease)
				b := c.Start("b")
				b.Quiet(2 * shortLease)
				c.Each(cut, "b")
				for _, nd := range c.Nodes {
					nd.Reset("b")
				}
				time.Sleep(shortLease)
				cordon(t, c.Quorum("operator"), "b")
				a.Shutdown()
				time.Sleep(shortLease)
				c.Heal()
				b.Quiet(3 * shortLease)
			})
		})
	}
}

func TestForeignCordonIsReported(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Seed()
		c.Nodes[0].Server().HSet(cordonsKey, "a", "ask bob", "b c", "x", "", "y", "d", strings.Repeat("z", 1<<20))
		a := c.Start("a")
		a.Quiet(2 * shortLease)
		list, err := a.Q.Cordons(t.Context())
		if err != nil || len(list) != 2 || list[0].Reason != "ask bob" || len(list[1].Reason) > 1000 {
			t.Errorf("%v, %+v", err, list)
		}
		uncordon(t, a.Q, "a")
		a.Elected(time.Second)
	})
	bubble(t, 1, func(t *testing.T, c *cluster) {
		if err := c.Nodes[0].Server().Set(cordonsKey, "hello"); err != nil {
			t.Fatal(err)
		}
		a := c.Start("a")
		a.Elected(3 * shortLease)
		time.Sleep(10 * shortLease)
		if lines := a.Log.Lines("cannot read which candidates are cordoned", "WRONGTYPE"); len(lines) != 1 {
			t.Errorf("%q", a.Log.Lines())
		}
		if err := a.Q.Cordon(t.Context(), elector.Cordon{ID: "a"}); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("%v", err)
		}
	})
}

// No leader makes room for a candidate that would not take its place.
func TestNoLeaderYieldsToACordonedCandidate(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		cordon(t, op, "b")
		byPriority := func(cfg *elector.Config) { cfg.Succession, cfg.Priority = elector.SuccessionPriority, int(cfg.ID[0]) }
		a := c.Start("a", byPriority)
		term := a.Elected(3 * shortLease)
		b := c.Start("b", byPriority)
		b.Quiet(5 * shortLease)
		if !term.Valid() {
			t.Fatalf("%v", term.Err())
		}
		uncordon(t, op, "b")
		b.Elected(3 * shortLease)
	})
}

func TestTryCampaignOfACordonedCandidate(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		cordon(t, op, "a")
		a := makeCandidate(t, c.Quorum("a"), "a")
		if _, err := a.TryCampaign(t.Context()); !errors.Is(err, elector.ErrNotLeader) || !strings.Contains(err.Error(), "cordoned (by ada") {
			t.Errorf("%v", err)
		}
		uncordon(t, op, "a")
		term, err := a.TryCampaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := term.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Cordons of others cost a candidate a read, and no claims.
func TestCordonOfAnotherCandidateCostsNoClaim(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		_, _, op := trio(t, c)
		c.Nodes[0].Took()
		for i := range 20 {
			cordon(t, op, fmt.Sprint("other-", i))
			time.Sleep(shortLease / 100)
		}
		if claims := c.Nodes[0].TookOf("claim"); claims > 2 {
			t.Errorf("%d claims", claims)
		}
	})
}

func TestCordonWithoutAName(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.Quorum("operator")
		for _, id := range []string{"", "a b", strings.Repeat("x", 201)} {
			var wrong *elector.ConfigError
			if err := q.Cordon(t.Context(), elector.Cordon{ID: id}); !errors.As(err, &wrong) {
				t.Errorf("%.20q: %v", id, err)
			}
			if _, err := q.Uncordon(t.Context(), elector.Cordon{ID: id}); !errors.As(err, &wrong) {
				t.Errorf("%.20q: %v", id, err)
			}
		}
		if err := q.Cordon(t.Context(), elector.Cordon{ID: "a", Reason: strings.Repeat("x", 501)}); err == nil {
			t.Error("a reason of 501 bytes")
		}
		if ended, err := q.Uncordon(t.Context(), elector.Cordon{ID: "a"}); ended || err != nil {
			t.Errorf("%t, %v", ended, err)
		}
		q.Close()
		if err := q.Cordon(t.Context(), elector.Cordon{ID: "a"}); !errors.Is(err, elector.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}
