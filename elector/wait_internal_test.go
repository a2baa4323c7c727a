package elector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// When to claim after what was heard: earlier than planned for a release that a majority
// of the nodes reports, never because of fewer, and never before a false alarm is over.
func TestWhenToClaimAfterAMessage(t *testing.T) {
	const planned, rtt = 8 * time.Second, 3 * time.Millisecond
	ends := func(next string) map[int]release {
		return map[int]release{0: {token: 7, next: next}, 2: {token: 7, next: next}}
	}
	for name, c := range map[string]struct {
		heard       notices
		row         bool // in the front row
		muted       time.Duration
		nobody      bool          // the last claim saw no holder
		least, most time.Duration // from now on
	}{
		"nothing":                       {least: planned, most: planned},
		"one node's word":               {heard: notices{events: map[int]release{1: {token: 7}}}, least: planned, most: planned},
		"a release":                     {heard: notices{events: ends("")}, least: rowAhead, most: rowAhead + 20*perFollower},
		"a release after a false alarm": {heard: notices{events: ends("")}, muted: time.Second, least: time.Second, most: time.Second},
		"muted for longer than planned": {heard: notices{events: ends("")}, muted: time.Hour, least: planned, most: planned},
		"in the front row":              {heard: notices{wake: ends(""), events: ends("")}, row: true, least: 0, most: 3 * 2 * rtt},
		"named to go first":             {heard: notices{wake: ends("me"), events: ends("me")}, row: true},
		"another one is named":          {heard: notices{wake: ends("you"), events: ends("you")}, row: true, least: 2 * rtt, most: 2*rtt + 4*2*rtt},
		"the seat is kept for us":       {heard: notices{events: ends(quorum.Reservation("me"))}},
		"the seat is kept for another":  {heard: notices{wake: ends(quorum.Reservation("you")), events: ends(quorum.Reservation("you"))}, row: true, least: 2500 * time.Millisecond, most: 2500*time.Millisecond + 4*2*rtt},
		"kept for another, one node's":  {heard: notices{wake: map[int]release{0: {token: 7, next: quorum.Reservation("you")}, 2: {token: 7}}, events: ends("")}, row: true, most: 3 * 2 * rtt},
		"a new leader, in the row":      {heard: notices{wake: ends(""), events: ends(""), elected: 8}, row: true, least: 4 * 2 * rtt * 2, most: 2 * 4 * 2 * rtt * 2},
		"a new leader, behind":          {heard: notices{events: ends(""), elected: 8}, least: 5 * time.Second, most: 7500 * time.Millisecond},
		"a gap in what was heard":       {heard: notices{resubscribed: true}, least: 0, most: 625 * time.Millisecond},
		"a gap, and nobody led":         {heard: notices{resubscribed: true}, nobody: true, least: planned, most: planned},
		"the leader that we saw, again": {heard: notices{elected: 7}, least: planned, most: planned},
		"a new leader, one node's word": {heard: notices{elected: 8}, least: 5 * time.Second, most: 7500 * time.Millisecond},
		"the same, in the row":          {heard: notices{elected: 8}, row: true, least: planned, most: planned},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 20 { // much of it is random
					w := listening(t)
					w.e.incarnation = "me"
					now := time.Now()
					w.notices, w.held, w.rtt, w.waiters, w.crowd = c.heard, "a", rtt, 4, 20
					w.at, w.muted = now.Add(planned), now.Add(c.muted)
					if c.nobody {
						w.held = ""
					}
					if c.row {
						w.stopWake = func() {}
					}
					got := w.next()
					if d := got.Sub(now); d < c.least || d > c.most {
						t.Fatalf("in %v, want %v to %v", d, c.least, c.most)
					}
					again := w.next()
					if again.After(got) { // whoever repeats messages puts nothing off
						t.Fatalf("put off by %v", again.Sub(got))
					}
					if (c.heard.resubscribed || c.heard.events == nil) && !again.Equal(got) { // nor does it bring forward
						t.Fatalf("brought forward by %v", got.Sub(again))
					}
				}
			})
		})
	}
}

// holding is a node's answer that somebody holds its lock for so much longer.
func holding(who string, token string, left time.Duration) quorum.Answer {
	return quorum.Answer{Status: quorum.Held, Holder: who + "/x/1 n=3 lease=10000 token=" + token, Left: left, Waiters: -1, Crowd: -1}
}

// When to claim after a claim that was lost: when the lock would lapse; soon, and then
// less and less often, where too few nodes answer; and at random after a split vote, or
// the same candidates split it again.
func TestWhenToClaimAgain(t *testing.T) {
	const lease, rtt = 10 * time.Second, 3 * time.Millisecond
	unknown := quorum.Answer{Status: quorum.Unknown, Waiters: -1, Crowd: -1}
	won := quorum.Answer{Status: quorum.Won, Fence: 8, Waiters: -1, Crowd: -1}
	paused := quorum.Answer{Status: quorum.Paused, Left: 20 * time.Second, Waiters: -1, Crowd: -1}
	a := func(left time.Duration) quorum.Answer { return holding("a", "7", left) }
	for name, c := range map[string]struct {
		answers     []quorum.Answer
		times       int // in a row
		first       bool
		least, most time.Duration
	}{
		"held":                           {answers: []quorum.Answer{a(4 * time.Second), a(5 * time.Second), unknown}, least: 5*time.Second + slot, most: 5*time.Second + slot},
		"held, and we are the first":     {answers: []quorum.Answer{a(4 * time.Second), a(5 * time.Second), unknown}, first: true, least: 5*time.Second + afterLease, most: 5*time.Second + afterLease},
		"held without an end":            {answers: []quorum.Answer{a(-1), a(-1), a(-1)}, least: lease + slot, most: lease + slot},
		"paused for longer than a lease": {answers: []quorum.Answer{paused, paused, paused}, least: lease + slot, most: lease + slot},
		"nobody answers":                 {answers: []quorum.Answer{unknown, unknown, a(time.Second)}, times: 1, least: lease / 128, most: lease / 64},
		"nobody answers, once more":      {answers: []quorum.Answer{unknown, unknown, a(time.Second)}, times: 2, least: lease / 64, most: lease / 32},
		"nobody answers for long":        {answers: []quorum.Answer{unknown, unknown, a(time.Second)}, times: 20, least: lease / 8, most: lease / 4},
		"a split vote":                   {answers: []quorum.Answer{won, holding("b", "8", lease), holding("c", "8", lease)}, times: 1, least: rtt, most: 4 * rtt},
		"a split vote, once more":        {answers: []quorum.Answer{won, holding("b", "8", lease), holding("c", "8", lease)}, times: 2, least: 2 * rtt, most: 8 * rtt},
		"votes that split for long":      {answers: []quorum.Answer{won, holding("b", "8", lease), holding("c", "8", lease)}, times: 30, least: lease / 8, most: lease / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 20 {
					w := listening(t)
					w.waiters, w.crowd, w.stopWake = 1, 1, func() {}
					if c.first {
						for i := range c.answers {
							c.answers[i].Note = quorum.Next
						}
					}
					for range max(1, c.times) {
						w.plan(w.e.quorum.nodes.Tally(c.answers, rtt))
					}
					if d := time.Until(w.at); d < c.least || d > c.most {
						t.Fatalf("in %v, want %v to %v", d, c.least, c.most)
					}
				}
			})
		})
	}
}

// A claim that was made because of a message, and met the holder of before, shuts the
// ears for a sixteenth of a lease: else whoever forges releases drives the claims of all.
func TestFalseAlarmIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			woken bool
			was   string
			muted bool
		}{{true, "a/x/1", true}, {false, "a/x/1", false}, {true, "b/x/1", false}} {
			w := listening(t)
			w.woken, w.held, w.waiters, w.stopWake = c.woken, c.was, 1, func() {}
			h := holding("a", "7", time.Second)
			w.plan(w.e.quorum.nodes.Tally([]quorum.Answer{h, h, h}, 0))
			want := time.Time{}
			if c.muted {
				want = time.Now().Add(w.e.timing.RetryEvery())
			}
			if !w.muted.Equal(want) || w.woken || w.held != "a/x/1" || w.token != 7 {
				t.Errorf("%+v: muted until %v, want %v; woken %v, held %q, token %d", c, w.muted, want, w.woken, w.held, w.token)
			}
			w.held, w.woken, w.muted = "", true, time.Time{} // nobody led, and nobody does
			no := quorum.Answer{Status: quorum.Unknown}
			if w.plan(w.e.quorum.nodes.Tally([]quorum.Answer{no, no, no}, 0)); !w.muted.IsZero() {
				t.Error("muted where nobody holds")
			}
		}
	})
}

// At a lease's end followers come spread by how many they are, the front row first: a
// thousand at once would be a herd, and a few that wait for nothing a late election.
func TestClaimsAreSpread(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, waiters, crowd int
		row, first            bool
		least, most           time.Duration // and these are reached, nearly
	}{
		"the first":                        {nodes: 3, waiters: 8, crowd: 1000, row: true, first: true, least: afterLease, most: afterLease},
		"alone":                            {nodes: 3, waiters: 1, crowd: 1, row: true, least: slot, most: slot},
		"one node, three in the row":       {nodes: 1, waiters: 3, crowd: 3, row: true, least: slot, most: slot},
		"one node, four in the row":        {nodes: 1, waiters: 4, crowd: 4, row: true, least: slot, most: slot + slot*3/2},
		"three nodes, three in the row":    {nodes: 3, waiters: 3, crowd: 3, row: true, least: slot, most: slot * 2},
		"a full row of a crowd":            {nodes: 3, waiters: 8, crowd: 1000, row: true, least: slot, most: slot + slot*7/2},
		"behind the row":                   {nodes: 3, waiters: 8, crowd: 1000, least: slot + rowAhead, most: slot + rowAhead + 1000*perFollower},
		"no crowd, and not in the row":     {nodes: 3, waiters: 0, crowd: quorum.FrontRow, least: slot, most: slot},
		"one more is a crowd, at one node": {nodes: 1, waiters: 8, crowd: quorum.FrontRow + 1, least: slot + rowAhead, most: slot + rowAhead + 9*perFollower},
	} {
		t.Run(name, func(t *testing.T) {
			w := &waiter{e: offline(t, c.nodes), waiters: c.waiters, crowd: c.crowd, first: c.first}
			if c.row {
				w.stopWake = func() {}
			}
			least, most := w.share(), w.share()
			for range 500 {
				d := w.share()
				least, most = min(least, d), max(most, d)
			}
			span := (c.most - c.least) / 10
			if least < c.least || most > c.most || least > c.least+span || most < c.most-span {
				t.Errorf("%v to %v, want %v to %v", least, most, c.least, c.most)
			}
		})
	}
}

// Behind a release without a favourite the front row comes in turns; on one node, where
// votes can't split, two at a time.
func TestTurnsOfTheFrontRow(t *testing.T) {
	for nodes, last := range map[int]int{1: 2, 3: 3} {
		w := &waiter{e: offline(t, nodes), waiters: 4, crowd: 4}
		reports := map[int]release{0: {token: 7}, 1: {token: 7}}
		seen := map[time.Duration]bool{}
		for range 500 {
			seen[w.turn(true, reports, nodes/2+1)] = true
		}
		for i := range last + 1 {
			if !seen[time.Duration(i)*slot] {
				t.Errorf("%d nodes: nobody comes in turn %d", nodes, i)
			}
		}
		if len(seen) != last+1 {
			t.Errorf("%d nodes: %v", nodes, seen)
		}
	}
}

// How many listen is the highest number that a node tells; one that tells none changes
// nothing.
func TestCrowdsAsTold(t *testing.T) {
	w := &waiter{waiters: 3, crowd: 4}
	told := func(waiters, crowd int) quorum.Answer { return quorum.Answer{Waiters: waiters, Crowd: crowd} }
	w.crowds(quorum.Tally{Answers: []quorum.Answer{told(-1, -1), told(-1, -1)}})
	if w.waiters != 3 || w.crowd != 4 {
		t.Errorf("nobody told: %d, %d", w.waiters, w.crowd)
	}
	w.crowds(quorum.Tally{Answers: []quorum.Answer{told(2, 9), told(-1, -1), told(0, 11)}})
	if w.waiters != 2 || w.crowd != 11 {
		t.Errorf("%d in the row of %d", w.waiters, w.crowd)
	}
	w.crowds(quorum.Tally{Answers: []quorum.Answer{told(0, 0)}})
	if w.waiters != 0 || w.crowd != 0 {
		t.Errorf("nobody is left: %d, %d", w.waiters, w.crowd)
	}
}

// The front row is left only when it is too full, and not by all at once.
func TestFullFrontRowIsLeftByTheRest(t *testing.T) {
	leave := func(waiters int) (left int) {
		for range 3000 {
			w := &waiter{waiters: waiters, stopWake: func() { left++ }}
			w.row()
		}
		return left
	}
	if n := leave(quorum.FrontRow); n > 0 {
		t.Errorf("a row that is just full is left %d times", n)
	}
	if n := leave(2 * quorum.FrontRow); n < 1200 || n > 1800 { // one half
		t.Errorf("of 3000 in a row of twice its size %d leave", n)
	}
}
