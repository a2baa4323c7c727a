package electortest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/health"
)

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
		var ended *elector.Ended
		if !errors.As(term.Err(), &ended) || ended.Reason != elector.ReasonResigned {
			t.Errorf("term %d ended with %v", term.Token(), term.Err())
		}
	}
}
