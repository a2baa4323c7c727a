package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Redis is out of the leader's reach just when it gives the lock back.

// callTimeout bounds one request, with the default RenewEvery.
const callTimeout = shortLease / 5

// outages are what can be in the way, and how long it takes to notice that it is over.
var outages = []struct {
	name   string
	f      fault
	notice time.Duration
}{
	{"refused", down, shortLease / 16},
	{"cut", cut, callTimeout + shortLease/16}, // the request that was lost has its time
	{"frozen", frozen, callTimeout + shortLease/16},
}

// outage is one of them, for d.
func outage(c *cluster, f fault, d time.Duration, clients ...string) {
	c.Each(f, clients...)
	time.AfterFunc(d, func() { c.Each(fault{}, clients...) })
}

func TestReleaseAtShutdownThroughAnOutage(t *testing.T) {
	for _, o := range outages {
		for _, d := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprintf("%s for %v", o.name, d), func(t *testing.T) {
				onAll(t, func(t *testing.T, c *cluster) {
					a := c.Start("a")
					term := a.Elected(3 * shortLease)
					b := c.Start("b")
					b.Quiet(shortLease + 100*time.Millisecond) // between two renewals
					outage(c, o.f, d, "a")
					began := time.Now()
					a.Stop()
					if next := b.Elected(shortLease); next.Token() <= term.Token() {
						t.Errorf("token %d after %d", next.Token(), term.Token())
					}
					if took := time.Since(began); took > d+o.notice+100*time.Millisecond {
						t.Errorf("the next one leads after %v", took)
					}
					if err := a.Ended(time.Second); err != nil {
						t.Errorf("Run: %v", err)
					}
				})
			})
		}
	}
}

// When the outage is longer than the lease, Run says that it did not release the lock,
// and not before the lock has lapsed.
func TestReleaseThatNeverArrives(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			onAll(t, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				b := c.Start("b")
				b.Quiet(shortLease + 100*time.Millisecond)
				c.Each(o.f, "a")
				began := time.Now()
				a.Stop()
				err := a.Ended(shortLease + 2*callTimeout) // as Run and docs/runbook.md say
				if !notReleased(err, term) {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(began); took < shortLease-callTimeout {
					t.Errorf("Run returned after %v, while the lock stood", took)
				}
				b.Elected(shortLease / 10)
				if err := a.Resign(t.Context()); err == nil {
					t.Error("Resign says that the lock was released")
				}
				c.Heal()
			})
		})
	}
}

// notReleased reports whether err is about that term, and about a node.
func notReleased(err error, term *elector.Term) bool {
	var node *elector.NodeError
	return errors.Is(err, elector.ErrNotReleased) && errors.As(err, &node) && strings.Contains(err.Error(), fmt.Sprintf("term %d ", term.Token()))
}

// A probe fails while Redis is away: the lock is given back as soon as Redis is back, not
// when it lapses.
func TestStepDownWhileRedisIsAway(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		w := &ward{}
		a := c.Start("a", flaky(w)...)
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease + 100*time.Millisecond)
		const away = 2 * time.Second
		outage(c, down, away, "a")
		w.set(errors.New("disk full"))
		wantReason(t, term, time.Second, elector.ReasonUnhealthy)
		b.Elected(away + shortLease/16)
		if len(a.Log.Lines("lock not released, retrying")) != 1 {
			t.Error("not logged, or more than once")
		}
		w.set(nil)
		time.Sleep(2 * shortLease)
		a.Shutdown()
	})
}

// A term that expired is given back in the background: its candidate campaigns on.
func TestExpiredTermIsGivenBackToo(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease + 100*time.Millisecond)
		c.Each(cut, "a")
		wantReason(t, term, shortLease, elector.ReasonExpired)
		time.Sleep(100 * time.Millisecond)
		c.Each(fault{}, "a")
		began := time.Now()
		first(t, shortLease, a, b)
		if took := time.Since(began); took > callTimeout+shortLease/16 {
			t.Errorf("a candidate leads %v after Redis was back", took)
		}
	})
}

// One node out of three that is away delays nobody, and is told when it is back, within
// the life of Run.
func TestReleaseReachesTheRestLater(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		a.Elected(3 * shortLease)
		time.Sleep(shortLease + 100*time.Millisecond)
		c.Nodes[2].Set(down, "a")
		began := time.Now()
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Second)
		if c.Locks() != 1 {
			t.Errorf("%d locks", c.Locks())
		}
		c.Nodes[2].Heal()
		time.Sleep(shortLease / 16)
		if c.Locks() != 0 {
			t.Errorf("%d locks", c.Locks())
		}
	})
}

// The same for a term of Campaign.
func TestCampaignedTermReportsThatItWasNotReleased(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term, err := a.Campaign(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(shortLease / 10)
		c.Each(cut)
		if err := term.Close(t.Context()); !errors.Is(err, elector.ErrNotReleased) {
			t.Errorf("Resign: %v", err)
		}
		c.Heal()
		again, err := a.Campaign(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Close(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
	})
}

// The release of a term that expired is repeated beside the next campaign, which it must
// not hold up; and Run, when it ends meanwhile, reports what became of it.
func TestExpiredTermHoldsUpNoCampaign(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease + 100*time.Millisecond)
		c.Each(cut, "a")
		wantReason(t, term, shortLease, elector.ReasonExpired)
		time.Sleep(callTimeout + 100*time.Millisecond) // the first release has its time
		if n := len(a.Log.Lines("msg=following")); n != 2 {
			t.Errorf("it began to campaign %d times, want 2", n)
		}
		a.Stop()
		if err := a.Ended(shortLease); !notReleased(err, term) {
			t.Errorf("Run: %v", err)
		}
		c.Heal()
	})
}

// A lock that has lapsed before the work returned can't be given back, and is no error.
func TestLapsedLockIsNotOwed(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a").Begin(stopsAfter(2 * shortLease))
		term := a.Elected(3 * shortLease)
		c.Each(cut, "a")
		wantReason(t, term, shortLease, elector.ReasonExpired)
		a.Stop()
		if err := a.Ended(3 * shortLease); err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := len(a.Log.Lines("lock not released")); n != 0 {
			t.Errorf("logged %d times", n)
		}
		c.Heal()
	})
}

// A release reports for how long the lease has covered the work: without it the history would show
// a leader that was suspended as if it had led until it woke up.
func TestReleaseReportsHowLongTheLeaseWasHeld(t *testing.T) {
	for name, w := range map[string]struct{ lingers, held time.Duration }{
		"the work returns in time": {held: 3 * shortLease},
		// Of the last renewal's lease, the rest covers the work still.
		"the work outlives the lease": {lingers: 3 * shortLease, held: 3*shortLease + shortLease*3/4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, c *cluster) {
				unhealthy := &ward{}
				a := makeCandidate(t, c.Quorum("a"), "a", flaky(unhealthy)...).Begin(stopsAfter(w.lingers))
				a.Elected(3 * shortLease)
				time.Sleep(3*shortLease - time.Millisecond)
				unhealthy.set(errors.New("disk full")) // it renews no more
				time.Sleep(w.lingers + time.Second)
				var end elector.Event
				entries, err := c.Nodes[0].Server().Stream("mandate:{orders}:history")
				for _, e := range entries {
					if ev, err := eventIn(e.Values[1]); err == nil && ev.Kind == elector.EventReleased {
						end = ev
					}
				}
				const about = shortLease / 4
				if err != nil || end.Held < w.held-about || end.Held > w.held+about {
					t.Errorf("held for %v, want about %v (%v)", end.Held, w.held, err)
				}
			})
		})
	}
}

// A node slower than the others by a multiple still has the claim in flight when a
// short term is released: its release waits for its turn, and must not be dropped
// because the majority's is done.
func TestReleaseOnASlowNodeIsNotDropped(t *testing.T) {
	for _, delay := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.Seed()
				c.Nodes[2].Set(fault{Delay: delay})
				a := makeCandidate(t, c.Quorum("a"), "a")
				boom := errors.New("boom")
				a.Begin(func(context.Context, *elector.Term) error { return boom })
				if err := a.Ended(shortLease); !errors.Is(err, boom) {
					t.Fatal(err)
				}
				electionOf(a.Q, "orders").Status(t.Context()) // the quorum lives on
				time.Sleep(10 * delay)
				if n := c.Locks(); n != 0 {
					t.Errorf("%d locks were left behind", n)
				}
			})
		})
	}
}
