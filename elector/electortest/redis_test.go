package electortest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/health"
)

func TestMain(m *testing.M) { testleak.VerifyTestMain(m) }

func TestExample(t *testing.T) { testBiller(t) }

const lease = testcluster.Lease

// start runs an elector until the test ends.
func start(t *testing.T, q *elector.Quorum, id string, change ...func(*elector.Config)) *elector.Elector {
	t.Helper()
	c := testcluster.NewCandidate(t, q, id, change...).Begin(new(elector.Gate).Work)
	t.Cleanup(c.Shutdown)
	return c.Elector
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
		a, b := start(t, r.Quorum("a"), "a"), start(t, r.Quorum("b"), "b")
		r.Lead(a)
		term := a.Term()
		heal := r.CutOff("a")
		deadline := time.Until(term.Deadline())
		electortest.Advance(deadline - time.Second)
		if !a.IsLeader() {
			t.Fatal("a gave up before its deadline")
		}
		electortest.Advance(time.Second)
		testcluster.WantReason(t, term, 0, elector.ReasonExpired)
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

func TestProbe(t *testing.T) {
	for name, harm := range map[string]func(*electortest.Probe){
		"fail": func(p *electortest.Probe) { p.Fail(errors.New("the disk is full")) },
		"hang": (*electortest.Probe).Hang,
	} {
		t.Run(name, func(t *testing.T) {
			electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
				var p electortest.Probe
				e := start(t, r.Quorum("a"), "a", func(c *elector.Config) {
					c.Probe = &p
					c.ProbeSettings = health.Settings{Interval: time.Second, Timeout: time.Second}
				})
				r.Lead(e)
				term := e.Term()
				electortest.Advance(5 * time.Minute)
				if !term.Valid() {
					t.Fatalf("the term ended: %v", term.Err())
				}
				harm(&p)
				electortest.Advance(30 * time.Second)
				testcluster.WantReason(t, term, 0, elector.ReasonUnhealthy)
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

// A test of somebody's work function needs a term of a known token whose end it decides.
func TestNewTermIsValidUntilItsEnd(t *testing.T) {
	term, end := electortest.NewTerm(t, 7)
	if !term.Valid() || term.Token() != 7 || term.Left() <= 0 || term.Err() != nil {
		t.Fatalf("valid: %v, token %d, left %v, %v", term.Valid(), term.Token(), term.Left(), term.Err())
	}
	end(elector.ReasonLost)
	<-term.Done()
	var ended *elector.Ended
	if !errors.As(context.Cause(term.Context()), &ended) || ended.Reason != elector.ReasonLost || term.Valid() || term.Left() != 0 {
		t.Errorf("valid: %v, left %v, ended with %v", term.Valid(), term.Left(), term.Err())
	}
}

// Work that gives its term up, or has stopped, must see that as under an election.
func TestNewTermIsResignedAndClosed(t *testing.T) {
	resigned, _ := electortest.NewTerm(t, 1)
	resigned.Resign()
	<-resigned.Done()
	closed, _ := electortest.NewTerm(t, 2)
	if err := closed.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, term := range []*elector.Term{resigned, closed} {
		testcluster.WantReason(t, term, 0, elector.ReasonResigned)
	}
}
