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
		"a new leader, in the row":      {heard: notices{wake: ends(""), events: ends(""), elected: 8}, row: true, least: 4 * 2 * rtt * 2, most: 2 * 4 * 2 * rtt * 2},
		"a new leader, behind":          {heard: notices{events: ends(""), elected: 8}, least: 5 * time.Second, most: 7500 * time.Millisecond},
		"a gap in what was heard":       {heard: notices{resubscribed: true}, least: 0, most: 625 * time.Millisecond},
		"a gap, and nobody led":         {heard: notices{resubscribed: true}, nobody: true, least: planned, most: planned},
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
					if again := w.next(); again.After(got) { // whoever repeats messages puts nothing off
						t.Fatalf("put off by %v", again.Sub(got))
					}
				}
			})
		})
	}
}
