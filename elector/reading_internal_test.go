package elector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// An observer reads the history when something may have changed, and only then: it
// watches a steady leader with one request in a lease.
func TestWhenTheHistoryIsRead(t *testing.T) {
	was := reported{begun: true, term: Event{Kind: EventElected, Candidate: "a", Incarnation: "a1", Token: 7}}
	ended := was
	ended.ending = endedReported
	leads := func(token uint64, incarnation string, agreed bool) *Leader {
		return &Leader{Candidate: "a", Incarnation: incarnation, Token: token, agreed: agreed}
	}
	for name, c := range map[string]struct {
		was      reported
		leader   *Leader
		messages bool
		want     bool
	}{
		"at first":                         {leader: leads(7, "a1", true), want: true},
		"at first, and no candidate leads": {want: true},
		"the same leader":                  {was: was, leader: leads(7, "a1", true)},
		"the same, whatever is published":  {was: was, leader: leads(7, "a1", true), messages: true},
		"another token":                    {was: was, leader: leads(8, "a1", true), want: true},
		"another life":                     {was: was, leader: leads(7, "a2", true), want: true},
		"nodes name different tokens":      {was: was, leader: leads(7, "a1", false), want: true},
		"it is gone":                       {was: was, want: true},
		"it has ended, as was reported":    {was: ended},
		"and now something was reported":   {was: ended, messages: true, want: true},
	} {
		if got := c.was.needsHistory(c.leader, c.messages); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Nobody is taken for gone as long as it may lead: where nodes did not answer, and where
// it is this process itself, by the clock.
func TestLeaderThatMayLeadIsNotReportedGone(t *testing.T) {
	e := offline(t, 3)
	self := func(token uint64) func() {
		return func() {
			e.term.Store(newTerm(context.Background(), e.hostClock, token, lease.NewGrant(e.hostClock, e.timing, e.hostClock.Now())))
		}
	}
	nobody := func() { e.term.Store(nil) }
	term := func(token uint64, incarnation string, end ending) reported {
		return reported{begun: true, term: Event{Kind: EventElected, Token: token, Incarnation: incarnation}, ending: end}
	}
	for name, c := range map[string]struct {
		was     reported
		self    func()
		mayLead string
		want    bool
	}{
		"no majority, and the rest may hold it": {was: term(7, "a1", notEnded), mayLead: "a1", want: true},
		"the rest may hold another's":           {was: term(7, "a1", notEnded), mayLead: "b1"},
		"all nodes answered":                    {was: term(7, "a1", notEnded)},
		"neither names a life":                  {was: term(7, "", notEnded)},
		"its end was reported":                  {was: term(7, "a1", endedReported), mayLead: "a1"},
		"it was reported gone":                  {was: term(7, "a1", endedVacant), mayLead: "a1"},
		"nobody was reported":                   {was: term(0, "a1", notEnded), mayLead: "a1"},
		"this process leads":                    {was: term(7, e.incarnation, notEnded), self: self(7), want: true},
		"this process leads another term":       {was: term(7, e.incarnation, notEnded), self: self(8)},
		"another process had that token":        {was: term(7, "a1", notEnded), self: self(7)},
	} {
		if c.self == nil {
			c.self = nobody
		}
		c.self()
		o := &observer{el: e.election, reported: c.was}
		if got := o.maybe(queryResult{status: Status{mayLead: c.mayLead}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// While Redis does not answer, a leader counts until the lease that was seen last is
// over, and then nobody knows: who asks must not be sent to one that is long gone.
func TestLeaderIsUnknownOnceItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := offline(t, 3)
		o := &observer{el: e.election}
		unknown := func(want bool, when string) {
			t.Helper()
			if o.expire(t.Context()); e.election.unknown.Load() != want {
				t.Errorf("%s: unknown %v", when, !want)
			}
		}
		unknown(false, "before the first answer")
		o.confirm(&Leader{LeaseLeft: 2 * time.Second})
		time.Sleep(2 * time.Second)
		unknown(false, "at the lease's end")
		time.Sleep(time.Nanosecond)
		over, end := context.WithCancel(t.Context())
		end()
		if o.expire(over); e.election.unknown.Load() {
			t.Error("an observer that has ended says so, too")
		}
		unknown(true, "behind it")
		o.confirm(&Leader{LeaseLeft: 2 * time.Second})
		unknown(false, "after an answer")
		o.confirm(nil)
		time.Sleep(time.Hour)
		unknown(false, "when no candidate led")
		if o.waitForReleased() != 0 {
			t.Error("a lease that was over is waited for")
		}
		o.lease = MaxLease
		o.confirm(&Leader{LeaseLeft: 2 * time.Second})
		if got := o.waitForReleased(); got != waitForLateEnd {
			t.Errorf("the report of an end is waited for up to %v with a lease of a day", got)
		}
	})
}

func TestHighestCounterOfTheNodes(t *testing.T) {
	if got := (Status{Nodes: []NodeStatus{{Fence: 3}, {Fence: 9}, {Fence: 4}}}).highest(); got != 9 {
		t.Errorf("%d", got)
	}
}
