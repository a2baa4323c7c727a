package elector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
)

// Run waits for nothing but the release, which has recorded the end of the term: who ends a process has no later
// occasion to, and waits for each.
func TestRunEndsWithTheRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, _ := leading(c, "a")
		time.Sleep(3 * shortLease)
		for _, n := range c.Nodes {
			n.On(func(cl call, _ *server.Peer) bool {
				if cl.Script == "announce" {
					time.Sleep(time.Minute)
				}
				return false
			})
		}
		began := time.Now()
		a.Shutdown()
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("Run ended %v after its context", took)
		}
		all, err := electionOf(c.Quorum("operator"), "orders").History(t.Context(), 1)
		if err != nil || len(all) != 1 || all[0].Reason != elector.ReasonShutdown || all[0].Lasted < 3*shortLease {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// Redis is out of the leader's reach just when it gives the lock back.

// callTimeout bounds one request, a fifth of the lease.
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
			sub(t, fmt.Sprintf("%s for %v", o.name, d), 3, func(t *testing.T, c *cluster) {
				a, b, term := pair(c, shortLease+100*time.Millisecond) // between two renewals
				outage(c, o.f, d, "a")
				began := time.Now()
				a.Stop()
				newer(t, b.Elected(shortLease), term)
				if took := time.Since(began); took > d+o.notice+100*time.Millisecond {
					t.Errorf("the next one leads after %v", took)
				}
				if err := a.Ended(time.Second); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
	}
}

// When the outage is longer than the lease, Run says that it did not release the lock,
// and not before the lock has lapsed.
func TestReleaseThatNeverArrives(t *testing.T) {
	for _, o := range outages {
		sub(t, o.name, 3, func(t *testing.T, c *cluster) {
			a, b, term := pair(c, shortLease+100*time.Millisecond)
			c.Each(o.f, "a")
			began := time.Now()
			a.Stop()
			err := a.Ended(shortLease + 2*callTimeout) // as Run and docs/runbook.md say
			if !errors.Is(err, elector.ErrNotReleased) || !errors.As(err, new(*elector.NodeError)) || !strings.Contains(err.Error(), fmt.Sprintf("term %d ", term.Token())) {
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
	}
}

// A probe fails while Redis is away: the lock is given back as soon as Redis is back, not
// when it lapses.
func TestStepDownWhileRedisIsAway(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		w := &fakeProbe{}
		a, term := leading(c, "a", flaky(w)...)
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
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b, term := pair(c, shortLease+100*time.Millisecond)
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
		a, _ := leading(c, "a")
		time.Sleep(shortLease + 100*time.Millisecond)
		c.Nodes[2].Set(down, "a")
		began := time.Now()
		must(t, a.Resign(t.Context()))
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
