package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// within is a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// trio starts candidates a, b and c, of which a leads, and an operator.
func trio(t *testing.T, c *cluster, change ...func(*elector.Config)) (all []*candidate, term *elector.Term, op *elector.Quorum) {
	t.Helper()
	a := c.start("a", change...)
	term = a.elected(3 * shortLease)
	all = []*candidate{a, c.start("b", change...), c.start("c", change...)}
	time.Sleep(shortLease)
	return all, term, c.quorum("operator")
}

func TestCandidatesAnswerTheRollCall(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				a := c.start("a", func(cfg *elector.Config) { cfg.Advertise, cfg.Version, cfg.Priority = "10.0.0.1:80", "v7", 3 })
				term := a.elected(3 * shortLease)
				c.start("b", func(cfg *elector.Config) {
					cfg.Probe = health.Func(func(context.Context) error { return errors.New("disk full") })
				})
				time.Sleep(shortLease)
				began := time.Now()
				all, err := electionOf(c.quorum("operator"), "orders").Candidates(t.Context())
				if err != nil || len(all) != 2 {
					t.Fatalf("%+v, %v", all, err)
				}
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("took %v although all have answered", took)
				}
				if x := all[0]; x.ID != "a" || x.Role != "leading" || x.Token != term.Token() || !x.Healthy || x.Advertise != "10.0.0.1:80" ||
					x.Version != "v7" || x.Priority != 3 || x.RunningFor < shortLease || x.HealthyFor <= 0 || x.Incarnation == "" {
					t.Errorf("%+v", x)
				}
				if x := all[1]; x.ID != "b" || x.Role != "following" || x.Healthy || !strings.Contains(x.Detail, "disk full") || x.Token != 0 {
					t.Errorf("%+v", x)
				}
				none, err := electionOf(c.quorum("other"), "unknown").Candidates(t.Context())
				if err != nil || len(none) != 0 {
					t.Errorf("of an unknown election: %+v, %v", none, err)
				}
			})
		})
	}
}

func TestRollCallGoesOnWithoutAHungCandidateOrNode(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, _, op := trio(t, c)
		c.each(fault{deaf: true}, "b")
		c.nodes[0].set(frozen, "")
		c.nodes[0].set(frozen, "operator")
		began := time.Now()
		all, err := electionOf(op, "orders").Candidates(t.Context())
		if err != nil || len(all) != 2 || all[0].ID != "a" || all[1].ID != "c" {
			t.Errorf("%+v, %v", all, err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestResignByAnOperator(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				_, term, op := trio(t, c)
				h, err := electionOf(op, "orders").StepDown(within(t, time.Minute), "maintenance")
				if err != nil {
					t.Fatal(err)
				}
				if h.From.Candidate != "a" || h.From.Token != term.Token() || h.To.Candidate == "a" || h.To.Token <= term.Token() || h.Gap > 10*time.Millisecond {
					t.Errorf("%+v", h)
				}
				if ended := wantReason(t, term, 0, elector.ReasonResigned); !strings.Contains(ended.Error(), "maintenance") {
					t.Errorf("%v", ended)
				}
			})
		})
	}
}

func TestResignWaitsForTheWork(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.quorum("a"), "a").run(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			time.Sleep(shortLease / 2)
			return nil
		})
		a.elected(3 * shortLease)
		b := c.start("b")
		time.Sleep(shortLease)
		began := time.Now()
		h, err := electionOf(c.quorum("operator"), "orders").StepDown(within(t, time.Minute), "")
		if err != nil || h.To.Candidate != "b" || time.Since(began) < shortLease/2 {
			t.Errorf("%+v, %v after %v", h, err, time.Since(began))
		}
		b.elected(time.Second)
	})
}

func TestNobodyToResignOrToTakeOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.quorum("operator")
		if _, err := electionOf(op, "orders").StepDown(within(t, time.Minute), ""); !errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("no leader: %v", err)
		}
		a := c.start("a")
		term := a.elected(3 * shortLease)
		h, err := electionOf(op, "orders").StepDown(within(t, shortLease/2), "")
		if !errors.Is(err, elector.ErrNoLeader) || h.From.Token != term.Token() {
			t.Errorf("no successor: %+v, %v", h, err)
		}
		a.elected(2 * shortLease) // after its cool-down
		c.each(fault{deaf: true}, "a")
		if _, err := electionOf(op, "orders").StepDown(within(t, time.Minute), ""); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("a deaf leader: %v", err)
		}
	})
}

func TestTransferToX(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				all, term, op := trio(t, c, func(cfg *elector.Config) { cfg.Cooldown = time.Millisecond })
				for i := range 12 { // chance would not name the same one again and again
					to := all[(i+1)%3]
					h, err := electionOf(op, "orders").Transfer(within(t, time.Minute), to.ID())
					if err != nil {
						t.Fatal(err)
					}
					if h.To.Candidate != to.ID() || h.To.Token <= term.Token() || h.Gap > 50*time.Millisecond {
						t.Fatalf("transfer %d to %s: %+v", i, to.ID(), h)
					}
					wantReason(t, term, 0, elector.ReasonHandover)
					term = to.elected(time.Second)
					time.Sleep(shortLease)
				}
			})
		})
	}
}

func TestTransferRefused(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		sick := make(chan struct{})
		_, term, op := trio(t, c, func(cfg *elector.Config) {
			if cfg.ID == "c" {
				cfg.Probe = health.Func(func(context.Context) error {
					select {
					case <-sick:
						return errors.New("disk full")
					default:
						return nil
					}
				})
			}
		})
		close(sick)
		time.Sleep(2 * shortLease)
		for to, want := range map[string]string{"a": "is already the leader", "c": "disk full", "nobody": "there are: a, b, c"} {
			_, err := electionOf(op, "orders").Transfer(within(t, time.Minute), to)
			if !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("to %s: %v, want %q", to, err, want)
			}
		}
		if term.Err() != nil {
			t.Errorf("the leader stepped down: %v", term.Err())
		}
	})
}

// The heir dies between the promise and the seat: the others wait a quarter of
// the lease and no longer.
func TestTransferToTheDying(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c)
		go func() {
			<-term.Done()
			c.each(cut, "b")
		}()
		h, err := electionOf(op, "orders").Transfer(within(t, time.Minute), "b")
		if !errors.Is(err, elector.ErrRefused) || h.To.Candidate != "c" {
			t.Errorf("%+v, %v", h, err)
		}
		next := all[2].elected(time.Second)
		if gap := next.Since().Sub(h.From.Since); h.Gap > shortLease/4+100*time.Millisecond || h.Gap == 0 {
			t.Errorf("without a leader for %v (%v)", h.Gap, gap)
		}
	})
}

func TestPauseKeepsTheLeader(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				all, term, op := trio(t, c)
				if err := electionOf(op, "orders").Pause(t.Context(), 0, "database migration"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * shortLease)
				if term.Err() != nil {
					t.Fatalf("a pause ended the term: %v", term.Err())
				}
				st, err := electionOf(op, "orders").Status(t.Context())
				if err != nil || !st.Paused || st.Pause != "database migration" || st.PauseLeft != 0 || st.Leader == nil {
					t.Errorf("%+v, %v", st, err)
				}
				all[0].shutdown()
				requests := c.nodes[0].requests()
				all[1].quiet(4 * shortLease)
				all[2].shutdown() // restarts of all change nothing
				d := c.start("d")
				d.quiet(2 * shortLease)
				if asked := c.nodes[0].requests() - requests; asked > 40 {
					t.Errorf("%d requests in 6 leases of a pause", asked)
				}
				for _, x := range []*candidate{all[1], d} {
					if lines := x.log.lines("election paused", "database migration"); len(lines) != 1 {
						t.Errorf("%s said the pause %d times", x.ID(), len(lines))
					}
					if err := x.Check(); err != nil {
						t.Errorf("%s is not ready in a pause: %v", x.ID(), err)
					}
				}
				if err := electionOf(op, "orders").Resume(t.Context()); err != nil {
					t.Fatal(err)
				}
				_, next := first(t, 200*time.Millisecond, all[1], d)
				if next.Token() <= term.Token() {
					t.Errorf("token %d after %d", next.Token(), term.Token())
				}
			})
		})
	}
}

func TestPauseEndsAutomatically(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.quorum("operator")
		if err := electionOf(op, "orders").Pause(t.Context(), 3*shortLease, ""); err != nil {
			t.Fatal(err)
		}
		a := c.start("a")
		a.quiet(3*shortLease - time.Millisecond)
		a.elected(2 * shortLease)
	})
}

func TestPauseNeedsAMajority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.quorum("operator")
		c.nodes[0].set(down, "operator")
		if err := electionOf(op, "orders").Pause(t.Context(), 0, ""); err == nil || errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "7001") {
			t.Errorf("one node down: %v", err)
		}
		c.nodes[1].set(down, "operator")
		if err := electionOf(op, "orders").Resume(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("two nodes down: %v", err)
		}
	})
}

// In a pause nobody new is elected: so nobody steps down for somebody new either,
// unless an operator asks for it.
func TestNobodyMakesRoomInAPause(t *testing.T) {
	for name, change := range map[string]func(*elector.Config){
		"MaxTerm":    func(cfg *elector.Config) { cfg.MaxTerm = 3 * shortLease },
		"ByPriority": func(cfg *elector.Config) { cfg.Succession, cfg.Priority = elector.SuccessionPriority, int(cfg.ID[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.start("a", change)
				term := a.elected(3 * shortLease)
				op := c.quorum("operator")
				c.each(fault{deaf: true}, "a") // its renewals tell it
				if err := electionOf(op, "orders").Pause(t.Context(), 0, "migration"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(shortLease / 2)
				c.heal()
				b := c.start("b", change)
				b.quiet(6 * shortLease)
				if !term.Valid() {
					t.Fatalf("nobody leads in the pause: %v", term.Err())
				}
				if _, err := electionOf(op, "orders").Transfer(within(t, time.Minute), "b"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "migration") {
					t.Errorf("transfer in a pause: %v", err)
				}
				if !term.Valid() {
					t.Fatalf("nobody leads in the pause: %v", term.Err())
				}
				if err := electionOf(op, "orders").Resume(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.elected(2 * shortLease)
			})
		})
	}
}

// What status does not call a pause is none.
func TestAnEmptyPauseIsNone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		if err := c.nodes[0].server().Set("mandate:{orders}:pause", ""); err != nil {
			t.Fatal(err)
		}
		c.start("a").elected(3 * shortLease)
	})
}

// A pause, and its end, reach candidates by a message: else they learn of it with their
// next request only, up to a lease later.
func TestPauseIsKnownAtOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, _, op := trio(t, c)
		known := func(line string) {
			t.Helper()
			time.Sleep(shortLease / 10)
			for _, x := range all[1:] {
				if n := len(x.log.lines(line)); n != 1 {
					t.Errorf("%s logged %q %d times within a tenth of a lease", x.ID(), line, n)
				}
			}
		}
		if err := electionOf(op, "orders").Pause(t.Context(), 0, "migration"); err != nil {
			t.Fatal(err)
		}
		known("election paused")
		if err := electionOf(op, "orders").Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		known("election resumed")
	})
}

// An operator whom a majority of the nodes can't pass on is told so: an empty roll call
// would say that nobody is there.
func TestRollCallNeedsAMajority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, _, op := trio(t, c)
		c.nodes[0].set(down, "operator")
		if all, err := electionOf(op, "orders").Candidates(t.Context()); err != nil || len(all) != 3 {
			t.Errorf("one node down: %+v, %v", all, err)
		}
		c.nodes[1].set(down, "operator")
		if _, err := electionOf(op, "orders").Candidates(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("two nodes down: %v", err)
		}
	})
}
