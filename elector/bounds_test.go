package elector_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/fence"
)

// What people and scripts ask an election answers within the time that its comment,
// and the help of its command, promises: with all nodes up, one hung, or all.
func TestRequestsOfOperatorsAreBounded(t *testing.T) {
	requests := map[string]struct {
		most time.Duration
		do   func(context.Context, *elector.Quorum) error
	}{
		"Status": {2 * time.Second, func(ctx context.Context, q *elector.Quorum) error {
			_, err := electionOf(q, "orders").Status(ctx)
			return err
		}},
		"Leader": {2 * time.Second, func(ctx context.Context, q *elector.Quorum) error {
			e, err := elector.New(q, elector.Config{Election: "orders"})
			if err != nil {
				return err
			}
			_, err = e.Election().Leader(ctx)
			return err
		}},
		"History": {3 * time.Second, func(ctx context.Context, q *elector.Quorum) error {
			_, err := electionOf(q, "orders").History(ctx, 10)
			return err
		}},
		"Pauses": {1500 * time.Millisecond, func(ctx context.Context, q *elector.Quorum) error {
			_, err := electionOf(q, "orders").Pauses(ctx)
			return err
		}},
		"Elections": {1500 * time.Millisecond, func(ctx context.Context, q *elector.Quorum) error {
			_, err := q.Elections(ctx)
			return err
		}},
		"Candidates": {3 * time.Second, func(ctx context.Context, q *elector.Quorum) error {
			_, err := electionOf(q, "orders").Candidates(ctx)
			return err
		}},
		"Pause": {2500 * time.Millisecond, func(ctx context.Context, q *elector.Quorum) error {
			return electionOf(q, "orders").Pause(ctx, time.Minute, "a test")
		}},
		"Resume": {2500 * time.Millisecond, func(ctx context.Context, q *elector.Quorum) error {
			return electionOf(q, "orders").Resume(ctx)
		}},
		"Ticks": {1500 * time.Millisecond, func(ctx context.Context, q *elector.Quorum) error {
			_, err := doctor.Ticks(ctx, electionOf(q, "orders"))
			return err
		}},
		"Examine": {6 * time.Second, func(ctx context.Context, q *elector.Quorum) error {
			_, err := doctor.Examine(ctx, q, doctor.Config{Election: "orders"})
			return err
		}},
	}
	for name, r := range requests {
		for _, hung := range []int{0, 1, 3} {
			t.Run(fmt.Sprintf("%s/%d hung", name, hung), func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, c *cluster) {
					trio(t, c)
					for _, n := range c.Nodes[:hung] {
						n.Set(frozen, "operator")
					}
					q := c.Quorum("operator")
					began := time.Now()
					err := r.do(t.Context(), q)
					// The operator's clock has the wire's time on top, and the scheduler's.
					if took := time.Since(began); took > r.most+10*time.Millisecond {
						t.Errorf("took %v, want at most %v", took, r.most)
					}
					if hung == 0 && err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// The table of docs/deploying.md by which a lease is chosen, with the defaults: what an
// outage costs that begins right before a renewal, right after it, or in between.
func TestOutagesThatCostNothing(t *testing.T) {
	for _, l := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for name, o := range map[string]struct {
			fault fault
			lasts time.Duration
		}{
			"refused": {down, l * 42 / 100},
			"hung":    {frozen, l * 42 / 100},
			"lost":    {cut, l * 26 / 100}, // each request has its time until it counts as lost
		} {
			for _, phase := range []int{0, 3, 6, 9} {
				t.Run(fmt.Sprintf("%v, %s, phase %d", l, name, phase), func(t *testing.T) {
					bubble(t, 1, func(t *testing.T, c *cluster) {
						term := c.Start("a", func(cfg *elector.Config) { cfg.Lease = l }).Elected(3 * l)
						time.Sleep(l + time.Duration(phase)*l/40 - 5*time.Millisecond)
						c.Each(o.fault)
						time.Sleep(o.lasts)
						c.Heal()
						time.Sleep(l)
						if !term.Valid() {
							t.Errorf("an outage of %v: %v", o.lasts, term.Err())
						}
					})
				})
			}
		}
	}
}

// The rows on a leader that is cut off: when its work is told to stop, how long it
// has for that, and when another one leads.
func TestSizingOfTheLease(t *testing.T) {
	for _, l := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for phase := range 5 {
			t.Run(fmt.Sprintf("%v, phase %d", l, phase), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, c *cluster) {
					lease := func(cfg *elector.Config) { cfg.Lease = l }
					term := c.Start("a", lease).Elected(3 * l)
					b := c.Start("b", lease)
					time.Sleep(2*l + time.Duration(phase)*l/20)
					c.Each(frozen, "a")
					began := time.Now()
					for term.Valid() {
						time.Sleep(time.Millisecond)
					}
					told := time.Since(began)
					if most := l*74/100 - 2*time.Millisecond; told > most+2*time.Millisecond {
						t.Errorf("the work was told after %v, want at most %v", told, most)
					}
					after := b.Elected(l).Since().Sub(began)
					if after < l*3/4-l/100 || after > l+20*time.Millisecond {
						t.Errorf("another one led after %v of %v", after, l)
					} else if after-told < l/4 {
						t.Errorf("the work had %v to stop", after-told)
					}
				})
			})
		}
	}
}

// The ticks of many elections are read at each scrape: one request to each node, two more and the marks where there are jobs, and
// a node that hangs delays them no longer than it delays the status.
func TestReadingTicksCostsLittle(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		el := electionOf(c.Quorum("operator"), "orders")
		read := func(jobs, requests int) {
			t.Helper()
			before := c.Nodes[1].Requests()
			began := time.Now()
			all, _ := doctor.Ticks(t.Context(), el)
			if took := time.Since(began); len(all) != jobs || took > 300*time.Millisecond {
				t.Errorf("%d jobs, after %v", len(all), took)
			}
			if got := c.Nodes[1].Requests() - before; got > requests {
				t.Errorf("%d requests for %d jobs", got, jobs)
			}
		}
		_, _ = doctor.Ticks(t.Context(), el) // connects
		read(0, 1)
		once, err := fence.NewOnce(c.Client("worker", 1), el)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range []string{"mail", "bills"} {
			if err := once.Take(t.Context(), fence.Tick{Job: job, At: time.Now(), Every: time.Minute, Token: 1}); err != nil {
				t.Fatal(err)
			}
		}
		c.Nodes[0].Set(frozen)
		read(2, 4)
	})
}
