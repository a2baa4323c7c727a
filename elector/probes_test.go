package elector_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/health"
)

// fakeProbe is a probe that a test lets fail.
type fakeProbe struct {
	mu     sync.Mutex
	err    error
	f      func(context.Context) error
	during atomic.Int32 // runs under way
	most   atomic.Int32
}

func (w *fakeProbe) Check(ctx context.Context) error {
	if n := w.during.Add(1); n > w.most.Load() {
		w.most.Store(n)
	}
	defer w.during.Add(-1)
	w.mu.Lock()
	err, f := w.err, w.f
	w.mu.Unlock()
	if f != nil {
		return f(ctx)
	}
	return err
}

func (w *fakeProbe) set(err error) { w.mu.Lock(); defer w.mu.Unlock(); w.err, w.f = err, nil }

func (w *fakeProbe) do(f func(context.Context) error) { w.mu.Lock(); defer w.mu.Unlock(); w.f = f }

func probed(p health.Probe) func(*elector.Config) {
	return func(cfg *elector.Config) { cfg.Probe = p }
}

func TestFailingProbeStepsDown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		w := &fakeProbe{}
		const stops = 700 * time.Millisecond
		a := makeCandidate(t, c.Quorum("a"), "a", probed(w))
		a.Begin(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			time.Sleep(stops)
			if c.Locks() != 3 {
				t.Error("the lock was released under the running work")
			}
			return nil
		})
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		events := watch(t, a.Election())
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		w.set(errors.New("the queue is not reachable"))
		ended := wantReason(t, term, 3*time.Second+tick, elector.ReasonUnhealthy) // 3 failures, one a second
		if !strings.Contains(ended.Error(), "the queue is not reachable") {
			t.Errorf("the reason %q lacks the probe's words", ended)
		}
		if a.IsLeader() {
			t.Error("IsLeader while unhealthy")
		}
		began := time.Now()
		two := b.Elected(time.Second)
		if d := time.Since(began); d < stops-time.Millisecond || two.Since().Sub(began) > stops+10*wire {
			t.Errorf("b was elected %v after the step-down, the work took %v to stop", d, stops)
		}
		want(t, events, time.Second, elector.EventStopping, "a", term.Token())
		if ev := want(t, events, time.Second, elector.EventReleased, "a", term.Token()); ev.Reason != elector.ReasonUnhealthy || !strings.Contains(ev.Detail, "the queue") {
			t.Errorf("event %+v", ev)
		}
		want(t, events, time.Second, elector.EventElected, "b", two.Token())
		// Not a candidate until it has recovered.
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), "the queue is not reachable") {
			t.Errorf("Check: %v", err)
		}
		b.Shutdown()
		a.Quiet(5 * shortLease)
		if lines := a.Log.Lines("unhealthy, not campaigning"); len(lines) != 1 {
			t.Errorf("logged %d times", len(lines))
		}
		w.set(nil)
		a.Elected(2 * time.Second)
		if err := a.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
}

func TestCooldownDoublesPerTrip(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w := &fakeProbe{}
		a := c.Start("a", probed(w), func(cfg *elector.Config) { cfg.Cooldown = 2 * time.Second })
		wait := 2 * time.Second
		for range 7 {
			term := a.Elected(time.Minute)
			w.set(errors.New("disk full"))
			wantReason(t, term, 4*time.Second, elector.ReasonUnhealthy)
			began := time.Now()
			w.set(nil)
			next := a.Elected(time.Minute)
			if d := time.Since(began); d < wait || d > wait+2*time.Second {
				t.Errorf("back after %v, want %v", d, wait)
			}
			wait = min(2*wait, 32*time.Second)
			a.Terms <- next
		}
		term := <-a.Terms
		time.Sleep(5 * shortLease) // a good term
		w.set(errors.New("disk full"))
		wantReason(t, term, 4*time.Second, elector.ReasonUnhealthy)
		w.set(nil)
		a.Elected(5 * time.Second)
	})
}

func TestProbeHangsForEver(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w, free := &fakeProbe{}, make(chan struct{})
		defer close(free)
		a := c.Start("a", probed(w))
		term := a.Elected(time.Minute)
		b := c.Start("b")
		time.Sleep(shortLease)
		c.Nodes[0].Took()
		w.do(func(context.Context) error { <-free; return nil }) // ignores its context
		began := time.Now()
		wantReason(t, term, 8*time.Second, elector.ReasonUnhealthy) // 3 x (interval + time-out) + interval
		t.Logf("tripped after %v", time.Since(began))
		// Renewal never waited for it.
		var last time.Time
		for _, cl := range c.Nodes[0].Took() {
			if cl.Script == "renew" && cl.From("a") {
				if !last.IsZero() && cl.At.Sub(last) > shortLease/4+10*time.Millisecond {
					t.Errorf("a renewal came %v after the one before", cl.At.Sub(last))
				}
				last = cl.At
			}
		}
		b.Elected(time.Second)
		time.Sleep(20 * shortLease)
		if n := w.most.Load(); n != 1 {
			t.Errorf("%d runs of the probe at once", n)
		}
	})
}

func TestProbePanics(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w := &fakeProbe{}
		a := c.Start("a", probed(w))
		term := a.Elected(time.Minute)
		w.do(func(context.Context) error { panic("nil map") })
		if ended := wantReason(t, term, 5*time.Second, elector.ReasonUnhealthy); !strings.Contains(ended.Error(), "nil map") {
			t.Errorf("reason %v", ended)
		}
		w.set(nil)
		a.Elected(3 * shortLease)
	})
}

func TestAllUnhealthyNoLeader(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Seed() // a first start after so long would wait for a lease
		before := c.Nodes[0].TookOf("claim")
		wards := map[string]*fakeProbe{"a": {}, "b": {}}
		var all []*candidate
		for id, w := range wards {
			w.set(errors.New(id + " has no disk"))
			all = append(all, c.Start(id, probed(w)))
		}
		time.Sleep(5 * shortLease)
		for _, x := range all {
			if len(x.Terms) > 0 {
				t.Errorf("%s leads", x.ID())
			}
			if err := x.Check(); err == nil || !strings.Contains(err.Error(), x.ID()+" has no disk") {
				t.Errorf("%s: Check: %v", x.ID(), err)
			}
		}
		if _, err := all[0].Election().Leader(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("Leader: %v", err)
		}
		if n := c.Nodes[0].TookOf("claim") - before; n > 0 {
			t.Errorf("%d claims", n)
		}
		wards["b"].set(nil)
		for _, x := range all {
			if x.ID() == "b" {
				x.Elected(3 * time.Second)
			}
		}
	})
}

// A process that is stopped between its last look at the probe and the request
// must not renew on that old verdict.
func TestHealthIsCheckedLast(t *testing.T) {
	for range 10 { // which goroutine runs first after the pause is a matter of luck
		bubble(t, 3, func(t *testing.T, c *cluster) {
			unhealthy, stopped := &fakeProbe{}, make(chan struct{})
			close(stopped)
			w := &lease.Warp{}
			gate := make(chan (<-chan struct{}), 1)
			gate <- stopped
			w.Gate = func() {
				g := <-gate
				gate <- g
				<-g
			}
			a := lying(t, c, w, "a", nil, probed(unhealthy), func(cfg *elector.Config) {
				cfg.ProbeSettings = health.Settings{Interval: shortLease / 100, Timeout: shortLease / 100, Failures: 1}
			})
			term := a.Elected(3 * shortLease)
			time.Sleep(shortLease/4 - shortLease/64 - 50*time.Millisecond) // shortly before its renewal
			g := make(chan struct{})
			<-gate
			gate <- g                          // SIGSTOP, as far as the clock shows it
			time.Sleep(300 * time.Millisecond) // it is due by then
			unhealthy.set(errors.New("disk full"))
			time.Sleep(time.Second)
			for _, nd := range c.Nodes {
				nd.Took()
			}
			close(g)
			time.Sleep(shortLease / 8)
			for i, nd := range c.Nodes {
				for _, cl := range nd.Took() {
					if cl.Script == "renew" {
						t.Errorf("node %d: renewed on a verdict from before the pause", i)
					}
				}
			}
			wantReason(t, term, 0, elector.ReasonUnhealthy)
		})
	}
}

// Also while the work of a resigned leader drains the probe is asked before every
// renewal.
func TestDrainingKeepsTheLeaseOnlyWhileHealthy(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		unhealthy := &fakeProbe{}
		a := makeCandidate(t, c.Quorum("a"), "a", probed(unhealthy), func(cfg *elector.Config) { cfg.DrainTimeout = 10 * shortLease })
		a.Begin(stopsAfter(4 * shortLease))
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		go a.Resign(context.Background())
		wantReason(t, term, time.Second, elector.ReasonResigned)
		b.Quiet(shortLease + time.Second)
		unhealthy.set(errors.New("disk full"))
		time.Sleep(shortLease) // beyond every threshold
		c.Nodes[0].Took()
		b.Elected(shortLease)
		for _, cl := range c.Nodes[0].Took() {
			if cl.Script == "renew" && cl.From("a") {
				t.Fatal("an unhealthy candidate renewed while it drained")
			}
		}
	})
}

// beating has a heartbeat as work probe, and work that beats while alive holds.
func beating(c *cluster, t *testing.T, id string, alive *atomic.Bool, bound time.Duration) *candidate {
	h := health.NewHeartbeat(bound)
	x := makeCandidate(t, c.Quorum(id), id, func(cfg *elector.Config) { cfg.WorkProbe = h })
	return x.Begin(func(ctx context.Context, _ *elector.Term) error {
		for ctx.Err() == nil {
			if alive.Load() {
				h.Beat()
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	})
}

func TestStalledWorkLosesTheLeadership(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var aliveA, aliveB atomic.Bool
		aliveA.Store(true)
		aliveB.Store(true)
		const bound = 2 * time.Second
		a := beating(c, t, "a", &aliveA, bound)
		term := a.Elected(3 * shortLease)
		b := beating(c, t, "b", &aliveB, bound)
		b.Quiet(5 * shortLease)
		continues(t, term)
		aliveA.Store(false)
		ended := wantReason(t, term, bound+10*time.Millisecond, elector.ReasonUnhealthy)
		if !strings.Contains(ended.Error(), "no progress") {
			t.Errorf("reason %v", ended)
		}
		b.Elected(20 * time.Millisecond)
	})
}
