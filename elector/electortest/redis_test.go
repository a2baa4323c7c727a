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

func TestCutOff(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		a, b := start(t, r, "a"), start(t, r, "b")
		r.Lead(a)
		term := a.Term()
		heal := r.CutOff("a")
		deadline := time.Until(term.Deadline())
		electortest.Advance(deadline - time.Second)
		if !a.IsLeader() {
			t.Fatal("a gave up before its deadline")
		}
		electortest.Advance(time.Second)
		wantReason(t, term, elector.ReasonExpired)
		electortest.Advance(lease / 2)
		if a.IsLeader() || !b.IsLeader() {
			t.Fatalf("a leads: %v, b leads: %v", a.IsLeader(), b.IsLeader())
		}
		heal()
		heal()
		r.Lead(a)

		healAll := r.CutOff()
		electortest.Advance(2 * lease)
		if a.IsLeader() || b.IsLeader() {
			t.Fatal("a candidate leads without Redis")
		}
		if err := a.Check(); err == nil {
			t.Error("a says that it can take part")
		}
		healAll()
		electortest.Advance(2 * lease)
		if !a.IsLeader() && !b.IsLeader() {
			t.Fatal("no candidate leads again")
		}
	})
}
