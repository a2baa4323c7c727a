package elector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// brief is an event as the tables below write it.
func brief(ev Event) string {
	s := fmt.Sprintf("%s %d", ev.Kind, ev.Token)
	if ev.Candidate != "" {
		s += " " + ev.Candidate + "@" + ev.Advertise
	}
	if ev.Reason != "" {
		s += " " + string(ev.Reason)
	}
	return s
}

func TestMerge(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	elected := func(token uint64, who string) Event {
		return Event{Version: 1, Kind: EventElected, Candidate: who, Incarnation: who + "1", Advertise: who + ":80", Token: token, Time: at}
	}
	released := func(token uint64, who string, r Reason) Event {
		return Event{Version: 1, Kind: EventReleased, Candidate: who, Incarnation: who + "1", Token: token, Reason: r, Time: at.Add(time.Second)}
	}
	leads := func(token uint64, who string) *Leader {
		return &Leader{Candidate: who, Incarnation: who + "1", Advertise: who + ":80", Token: token, holder: protocol.Holder{TokenAgreed: true}}
	}
	evil := func(kind string, token uint64, who string) Event {
		return Event{Version: 1, Kind: kind, Candidate: who, Advertise: "evil:80", Token: token, Reason: "forged", Time: at}
	}
	since := func(was reported, token uint64, who string, e ending) reported {
		was.begun, was.term, was.ending, was.newest = true, elected(token, who), e, max(was.newest, token)
		return was
	}
	twin := func(l *Leader, incarnation string) *Leader { l.Incarnation = incarnation; return l }
	unsettled := func(l *Leader, lowest uint64) *Leader {
		l.holder.TokenAgreed, l.holder.Lowest = false, lowest
		return l
	}
	missed := func(ago time.Duration, was reported) reported { was.missed = at.Add(-ago); return was }
	in := func(d time.Duration, ev Event) Event { ev.Time = at.Add(d); return ev }
	undated := func(ev Event) Event { ev.Time = time.Time{}; return ev }
	of := func(incarnation string, ev Event) Event { ev.Incarnation = incarnation; return ev }
	for name, c := range map[string]struct {
		was      reported
		leader   *Leader
		highest  uint64 // 100 by default
		history  []Event
		messages []Event
		stays    bool
		early    time.Duration
		want     string // the events
		wait     time.Duration
		newest   uint64
		after    time.Duration // the time of the last event, from now on
	}{
		"the first answer names nobody":      {want: "vacant 0"},
		"the first answer names a leader":    {leader: leads(7, "a"), want: "elected 7 a@a:80", newest: 7},
		"what was before it is not reported": {history: []Event{elected(5, "a"), released(5, "a", "shutdown")}, messages: []Event{released(5, "a", "x")}, want: "vacant 0", newest: 5},

		"nothing changed": {was: since(reported{}, 7, "a", notEnded), leader: leads(7, "a"), newest: 7},
		"messages about the sitting leader change nothing": {
			was: since(reported{}, 7, "a", notEnded), leader: leads(7, "a"), newest: 7,
			messages: []Event{evil(EventElected, 7, "a"), evil(EventElected, 7, "evil"), evil(EventReleased, 7, "a"), evil(EventElected, 8, "a"), evil(EventReleased, 8, "a")},
		},
		"a new leader and the old one's end": {
			was: since(reported{}, 7, "a", notEnded), leader: leads(9, "b"), messages: []Event{released(7, "a", "shutdown"), elected(9, "b")},
			want: "released 7 a@a:80 shutdown, elected 9 b@b:80", newest: 9,
		},
		"of two reports the history's counts": {
			was: since(reported{}, 7, "a", notEnded), history: []Event{released(7, "a", "shutdown")}, messages: []Event{evil(EventReleased, 7, "a")},
			want: "released 7 a@a:80 shutdown", newest: 7,
		},
		"a message brings a reason, no name and no address": {
			was: since(reported{}, 7, "a", notEnded), messages: []Event{evil(EventReleased, 7, "evil"), evil(EventReleased, 7, "a")},
			want: "released 7 a@a:80 forged", newest: 7,
		},
		"another candidate's end is not this one's": {
			was: since(reported{}, 7, "a", notEnded), messages: []Event{released(7, "b", "failed"), released(8, "a", "lost"), elected(7, "a"), released(7, "a", "shutdown")},
			want: "released 7 a@a:80 shutdown", newest: 7, after: time.Second,
		},
		"nor is that of another life of it": {
			was: since(reported{}, 7, "a", notEnded), messages: []Event{of("a2", released(7, "a", "failed"))}, wait: waitForEnd, newest: 7,
		},
		"a leader's time is the history's": {
			was: since(reported{}, 7, "a", endedReported), leader: leads(9, "b"), history: []Event{in(-time.Second, elected(9, "b"))}, messages: []Event{in(-time.Minute, elected(9, "b"))},
			want: "elected 9 b@b:80", newest: 9, after: -time.Second,
		},
		"or else that of a message about this very term": {
			was: since(reported{}, 7, "a", endedReported), leader: leads(9, "b"),
			messages: []Event{
				in(-time.Hour, released(9, "b", "lost")), in(-time.Hour, elected(8, "b")), in(-time.Hour, elected(9, "evil")),
				in(-time.Hour, of("b2", elected(9, "b"))), undated(elected(9, "b")), in(-time.Minute, elected(9, "b")),
			},
			want: "elected 9 b@b:80", newest: 9, after: -time.Minute,
		},
		"or else now": {
			was: since(reported{}, 7, "a", endedReported), leader: leads(9, "b"), messages: []Event{undated(elected(9, "b"))}, want: "elected 9 b@b:80", newest: 9,
		},
		"a message's name and address are not a leader's": {
			was: since(reported{}, 7, "a", endedReported), leader: leads(9, "b"), messages: []Event{evil(EventElected, 9, "b"), evil(EventElected, 9, "evil"), evil(EventElected, 8, "evil"), evil(EventElected, 10, "evil")},
			want: "elected 9 b@b:80", newest: 9,
		},
		"no candidate leads, whatever a message says": {
			was: since(reported{}, 7, "a", endedReported), messages: []Event{evil(EventElected, 8, "evil"), evil(EventReleased, 8, "evil")}, newest: 7,
		},

		"gone without a word: wait": {was: since(reported{}, 7, "a", notEnded), wait: waitForEnd, newest: 7},
		"gone without a word":       {was: missed(waitForEnd, since(reported{}, 7, "a", notEnded)), want: "vacant 7", newest: 7},
		"replaced without a word: wait for it": {
			was: since(reported{}, 7, "a", notEnded), leader: leads(9, "b"), wait: waitForOldEnd, newest: 7,
		},
		"replaced without a word": {was: missed(waitForOldEnd, since(reported{}, 7, "a", notEnded)), leader: leads(9, "b"), want: "elected 9 b@b:80", newest: 9},
		"missed already when no candidate led: wait for the rest": {
			was: missed(reportDelay, since(reported{}, 7, "a", notEnded)), leader: leads(9, "b"), wait: waitForOldEnd - reportDelay, newest: 7,
		},
		"the next one was elected since the lock was read: wait for the end": {
			was: since(reported{}, 7, "a", notEnded), history: []Event{elected(9, "b"), elected(7, "a")}, wait: waitForOldEnd, newest: 7,
		},
		"its lease was not over: wait longer for its report": {
			was: since(reported{}, 7, "a", notEnded), early: time.Second, leader: leads(9, "b"), wait: time.Second, newest: 7,
		},
		"but not before it is known that no candidate leads": {
			was: missed(waitForEnd, since(reported{}, 7, "a", notEnded)), early: time.Second, want: "vacant 7", newest: 7,
		},
		"the next one's lease counts for its own end": {
			was: missed(waitForOldEnd, since(reported{}, 7, "a", notEnded)), early: time.Second, leader: leads(9, "b"), want: "elected 9 b@b:80", newest: 9,
		},
		"nobody tells the end, and the next one has its end in the history": {
			was: missed(waitForOldEnd, since(reported{}, 7, "a", notEnded)), history: []Event{released(9, "b", "lost"), elected(9, "b")},
			want: "elected 9 b@b:80, released 9 b@b:80 lost", newest: 9, after: time.Second,
		},
		"of two that followed, the first one's end is missed": {
			was: since(reported{}, 7, "a", endedReported), history: []Event{elected(9, "b"), elected(10, "c"), released(10, "c", "lost")},
			want: "elected 9 b@b:80", wait: waitForOldEnd, newest: 9,
		},
		"it was not gone": {was: since(reported{}, 7, "a", endedVacant), leader: leads(7, "a"), want: "elected 7 a@a:80", newest: 7},
		"the rest of a lock after its end is no leader": {
			was: since(reported{}, 7, "a", endedReported), leader: leads(7, "a"), newest: 7,
		},
		"a lock that stays after its end is a leader's": {
			was: since(reported{}, 7, "a", endedReported), leader: leads(7, "a"), stays: true, want: "elected 7 a@a:80", newest: 7,
		},
		"of a leader that was not reported as gone it is no news": {
			was: since(reported{}, 7, "a", notEnded), leader: leads(7, "a"), stays: true, newest: 7,
		},

		"terms in between": {
			was: since(reported{}, 7, "a", notEnded), leader: leads(30, "d"),
			history: []Event{elected(30, "d"), elected(20, "c"), elected(10, "b"), elected(7, "a"), released(7, "a", "resigned"), released(20, "c", "failed"), released(10, "b", "finished"), elected(3, "z"), released(3, "z", "lost")},
			want:    "released 7 a@a:80 resigned, elected 10 b@b:80, released 10 b@b:80 finished, elected 20 c@c:80, released 20 c@c:80 failed, elected 30 d@d:80",
			newest:  30,
		},
		"a term in between vanished": {
			was: since(reported{}, 7, "a", endedReported), history: []Event{elected(10, "b")}, want: "elected 10 b@b:80", wait: waitForEnd, newest: 10,
		},
		"of a term in between only the end was written": {
			was: since(reported{}, 7, "a", endedReported), history: []Event{released(10, "b", "lost")}, want: "released 10 b@ lost", newest: 10,
		},
		"a message adds the end of a term in between": {
			was: since(reported{}, 7, "a", endedReported), leader: leads(30, "d"), history: []Event{elected(10, "b")}, messages: []Event{released(10, "b", "lost")},
			want: "elected 10 b@b:80, released 10 b@b:80 lost, elected 30 d@d:80", newest: 30,
		},
		"what no counter allows is left from before, or forged": {
			was: since(reported{}, 7, "a", endedReported), highest: 40, history: []Event{elected(41, "b")}, newest: 7,
		},

		"what the counter allows is not": {
			was: since(reported{}, 7, "a", endedReported), highest: 40, history: []Event{elected(40, "b")}, want: "elected 40 b@b:80", wait: waitForEnd, newest: 40,
		},
		"words of another kind are no term": {
			was: since(reported{}, 7, "a", endedReported), history: []Event{{Version: 1, Kind: EventStopping, Candidate: "b", Token: 10, Time: at}}, newest: 7,
		},

		"a token that goes down": {
			was: since(reported{}, 1000, "a", endedReported), leader: leads(10, "b"), history: []Event{elected(10, "b"), elected(8, "c")}, want: "elected 10 b@b:80", newest: 1000,
		},
		"a token that goes down, and nobody knows of the old leader's end": {
			was: missed(time.Hour, since(reported{}, 1000, "a", notEnded)), leader: leads(10, "b"), want: "elected 10 b@b:80", newest: 1000,
		},
		"and what the old history holds is not news then": {
			was: since(reported{newest: 1000}, 10, "b", endedReported), highest: 1000, history: []Event{elected(500, "x"), elected(1000, "a")}, newest: 1000,
		},
		"the same token, another life": {
			was: since(reported{}, 7, "a", endedReported), leader: twin(leads(7, "a"), "a2"), want: "elected 7 a@a:80", newest: 7,
		},

		"nodes disagree on a new leader's token: the history tells": {
			was: since(reported{}, 7, "a", endedReported), leader: unsettled(leads(12, "b"), 9), history: []Event{elected(10, "b"), elected(7, "a")},
			want: "elected 10 b@b:80", newest: 10,
		},
		"the history of its own elections, and none below what a node names": {
			was: since(reported{newest: 14}, 7, "a", endedReported), leader: unsettled(leads(12, "b"), 9),
			history: []Event{elected(10, "b"), elected(11, "c"), of("b2", elected(13, "b")), released(14, "b", "lost"), elected(9, "b"), elected(8, "b")},
			want:    "elected 10 b@b:80", newest: 14,
		},
		"the lowest token that a node names may be it": {
			was: since(reported{}, 7, "a", endedReported), leader: unsettled(leads(12, "b"), 9), history: []Event{elected(9, "b")}, want: "elected 9 b@b:80", newest: 9,
		},
		"it may have been reported with the lowest": {
			was: since(reported{}, 9, "b", notEnded), leader: unsettled(leads(12, "b"), 9), newest: 9,
		},
		"what was reported below it was another term": {
			was: since(reported{}, 8, "b", endedReported), leader: unsettled(leads(12, "b"), 9), want: "elected 12 b@b:80", newest: 12,
		},
		"and of another candidate, too": {
			was: since(reported{}, 10, "a", endedReported), leader: unsettled(leads(12, "b"), 9), want: "elected 12 b@b:80", newest: 12,
		},
		"and of another life": {
			was: since(reported{}, 10, "b", endedReported), leader: unsettled(twin(leads(12, "b"), "b2"), 9), want: "elected 12 b@b:80", newest: 12,
		},
		"a lock that names no life is that of the leader that was reported": {
			was: since(reported{}, 7, "a", notEnded), leader: twin(leads(7, "a"), ""), newest: 7,
		},
		"nodes disagree on the token of the leader that was reported": {
			was: since(reported{}, 10, "b", notEnded), leader: unsettled(leads(12, "b"), 9), newest: 10,
		},
		"nodes disagree, and nothing else tells": {
			was: since(reported{}, 7, "a", endedReported), leader: unsettled(leads(12, "b"), 9), want: "elected 12 b@b:80", newest: 12,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.highest == 0 {
				c.highest = 10_000
			}
			before := slices.Clone(c.history)
			st := Status{Leader: c.leader, Nodes: []NodeStatus{{Fence: c.highest}}}
			events, is, wait := c.was.merge(reading{status: st, history: c.history, messages: c.messages, stays: c.stays, early: c.early}, at)
			var got []string
			for _, ev := range events {
				got = append(got, brief(ev))
				if ev.Time.IsZero() || ev.Version != 1 {
					t.Errorf("%+v", ev)
				}
			}
			if s := strings.Join(got, ", "); s != c.want || wait != c.wait || is.newest != c.newest {
				t.Errorf("got %q, wait %v, newest %d\nwant %q, wait %v, newest %d", s, wait, is.newest, c.want, c.wait, c.newest)
			}
			if n := len(events); n > 0 && !events[n-1].Time.Equal(at.Add(c.after)) && (c.after != 0 || events[n-1].Kind != EventReleased) {
				t.Errorf("the last event is %v from now, want %v", events[n-1].Time.Sub(at), c.after)
			}
			if wait == 0 { // the same answer again brings nothing new
				if again, _, more := is.merge(reading{status: st, history: c.history, messages: c.messages}, at); len(again) > 0 || more > 0 {
					t.Errorf("again: %v, wait %v", again, more)
				}
			}
			if !slices.Equal(before, c.history) {
				t.Error("it changes what it was given")
			}
		})
	}
}
