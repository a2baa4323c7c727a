package electortest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/health"
)

func TestExample(t *testing.T) { testBiller(t) }

const lease = 10 * time.Second

// start runs an elector on the host of its name until the test ends.
func start(t *testing.T, r *electortest.Redis, id string, change ...func(*elector.Config)) *elector.Elector {
	t.Helper()
	return startOn(t, r.Quorum(id), id, change...)
}

func startOn(t *testing.T, q *elector.Quorum, id string, change ...func(*elector.Config)) *elector.Elector {
	t.Helper()
	var log bytes.Buffer
	cfg := elector.Config{Election: "orders", ID: id, Lease: lease, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for _, f := range change {
		f(&cfg)
	}
	e, err := elector.New(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- e.Run(ctx, new(elector.Gate).Work)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("%s: Run: %v", id, err)
		}
		if t.Failed() {
			t.Logf("what %s logged:\n%s", id, log.String())
		}
	})
	return e
}

func wantReason(t *testing.T, term *elector.Term, want elector.Reason) {
	t.Helper()
	var ended *elector.Ended
	if !errors.As(term.Err(), &ended) || ended.Reason != want {
		t.Fatalf("the term ended with %v, want %s", term.Err(), want)
	}
}

func TestLeadMakesTheChosenOneLead(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		var all []*elector.Elector
		for i := range 5 {
			all = append(all, start(t, r, fmt.Sprintf("c%d", i)))
		}
		token := uint64(0)
		for round := range 20 {
			e := all[(round*3)%len(all)]
			began := time.Now()
			r.Lead(e)
			if d := time.Since(began); d > 2*lease {
				t.Errorf("round %d: it took %v", round, d)
			}
			if !e.IsLeader() || e.Term().Token() <= token {
				t.Fatalf("round %d: leads: %v, token %d after %d", round, e.IsLeader(), e.Term().Token(), token)
			}
			token = e.Term().Token()
			electortest.Advance(3 * lease)
			for _, o := range all {
				if o.IsLeader() != (o == e) {
					t.Fatalf("round %d: %s leads: %v", round, o.ID(), o.IsLeader())
				}
			}
		}
	})
}

func TestTakeLease(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e := start(t, r, "a")
		r.Lead(e)
		term := e.Term()
		began := time.Now()
		r.TakeLease(e)
		if d := time.Since(began); d > lease/4+time.Second/10 {
			t.Errorf("the end came after %v, the next renewal is after %v at most", d, lease/4)
		}
		wantReason(t, term, elector.ReasonLost)
		if l, err := e.Election().Leader(t.Context()); err != nil || l.Candidate == "a" || l.Token <= term.Token() {
			t.Errorf("the leader is %+v (%v), want a rival with a higher token than %d", l, err, term.Token())
		}
		electortest.Advance(lease / 2)
		if e.IsLeader() {
			t.Error("e leads beside the rival")
		}
		electortest.Advance(lease)
		if !e.IsLeader() || e.Term().Token() <= term.Token()+1 {
			t.Errorf("e did not lead again after the rival's lease, with a token above the rival's: %d", e.Term().Token())
		}
	})
}

func TestProbe(t *testing.T) {
	for name, harm := range map[string]func(*electortest.Probe){
		"fail": func(p *electortest.Probe) { p.Fail(errors.New("the disk is full")) },
		"hang": (*electortest.Probe).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
				var p electortest.Probe
				e := start(t, r, "a", func(c *elector.Config) {
					c.Probe = &p
					c.ProbeSettings = health.Settings{Interval: time.Second, Timeout: time.Second}
				})
				r.Lead(e)
				term := e.Term()
				electortest.Advance(time.Hour)
				if !term.Valid() {
					t.Fatalf("the term ended: %v", term.Err())
				}
				harm(&p)
				electortest.Advance(30 * time.Second)
				wantReason(t, term, elector.ReasonUnhealthy)
				if name == "fail" && !strings.Contains(term.Err().Error(), "the disk is full") {
					t.Errorf("the reason is %v", term.Err())
				}
				p.Pass()
				electortest.Advance(time.Minute)
				if !e.IsLeader() {
					t.Error("it did not come back")
				}
			})
		})
	}
}

// Elections on one quorum don't get into each other's way, nor does a prefix.
func TestElectionsApart(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		q := r.Quorum("a")
		one := startOn(t, q, "x", func(c *elector.Config) { c.Election = "shard-1" })
		two := startOn(t, q.Namespace("mine"), "x", func(c *elector.Config) { c.Election = "shard-2" })
		r.Lead(one)
		r.Lead(two)
		r.TakeLease(two)
		if !one.IsLeader() || two.IsLeader() {
			t.Errorf("shard-1 led: %v, shard-2 led: %v", one.IsLeader(), two.IsLeader())
		}
	})
}

// misused is a test that notes how it failed.
type misused struct {
	testing.TB
	message string
}

func (m *misused) Fatalf(format string, args ...any) {
	m.message = fmt.Sprintf(format, args...)
	panic(m) // as runtime.Goexit, but the test goes on
}

func (m *misused) fails(f func()) (message string) {
	defer func() {
		if p := recover(); p != nil && p != any(m) {
			panic(p)
		}
		message = m.message
	}()
	f()
	return ""
}

func TestMisuseIsReported(t *testing.T) {
	electortest.Test(t, func(t *testing.T, _ *electortest.Redis) {
		m := &misused{TB: t}
		r := electortest.Start(m)
		e, err := elector.New(r.Quorum("a"), elector.Config{Election: "orders", ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if message := m.fails(func() { r.TakeLease(e) }); !strings.Contains(message, "does not lead orders") {
			t.Errorf("TakeLease reported %q", message)
		}
		if message := m.fails(func() { r.Lead(e) }); !strings.Contains(message, "is its Run or Campaign under way?") {
			t.Errorf("Lead reported %q", message)
		}
	})
}
