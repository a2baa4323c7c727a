package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// What the clocks are allowed to contradict each other by is given away from the
// drift: more of it, and a suspend hides behind a step of the wall clock.
func TestClocksAtTheBoundsOfTheirAgreement(t *testing.T) {
	const ms, hour = time.Millisecond, time.Hour
	no := func(w *lease.Warp) { w.NoBoot.Store(true) }
	yes := func(w *lease.Warp) { w.NoBoot.Store(false) }
	for name, tc := range map[string]struct {
		before, after    func(*lease.Warp)
		mono, wall, boot time.Duration // what passes on each
		want             time.Duration
		lost             bool
	}{
		"nothing passed": {},
		"all agree":      {mono: hour, wall: hour, boot: hour, want: hour},

		// Without a third clock the two must agree, to the millisecond.
		"wall ahead by what is allowed":         {before: no, wall: ms, want: ms},
		"wall ahead by more":                    {before: no, wall: ms + 1, lost: true},
		"wall behind by what is allowed":        {before: no, mono: hour, wall: hour - ms, want: hour},
		"wall behind by more":                   {before: no, mono: hour, wall: hour - ms - 1, lost: true},
		"no boot clock when the lease began":    {before: no, after: yes, wall: hour, boot: 2 * hour, lost: true},
		"no boot clock any more":                {after: no, wall: hour, lost: true},
		"suspended for the millisecond":         {wall: ms, boot: ms, want: ms},
		"suspended, and the wall stepped, both": {wall: 2 * ms, boot: 3 * ms, want: 3 * ms},

		// With it: the later of the boot and the monotonic clock.
		"wall stepped":                     {mono: ms, wall: -hour, boot: ms, want: ms},
		"suspended and stepped":            {mono: ms, wall: -hour, boot: hour, want: hour},
		"boot behind by what is allowed":   {mono: hour, wall: 2 * hour, boot: hour - ms, want: hour},
		"boot behind by more":              {mono: hour, wall: 2 * hour, boot: hour - ms - 1, lost: true},
		"boot ahead, and less than a tick": {mono: hour, wall: 2 * hour, boot: hour + 1, want: hour + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := new(lease.Warp)
				// Bent before, as by an earlier suspend: only what comes after counts.
				w.Mono.Store(int64(3 * hour))
				w.Wall.Store(int64(5 * hour))
				w.Boot.Store(int64(7 * hour))
				if tc.before != nil {
					tc.before(w)
				}
				c := lease.NewClock(w)
				s := c.Now()
				w.Mono.Add(int64(tc.mono))
				w.Wall.Add(int64(tc.wall))
				w.Boot.Add(int64(tc.boot))
				if tc.after != nil {
					tc.after(w)
				}
				got, ok := c.Since(s)
				if ok == tc.lost || ok && got != tc.want {
					t.Errorf("%v have passed, known %v; want %v, %v", got, ok, tc.want, !tc.lost)
				}
				g := lease.NewGrant(c, timing(24*hour), s)
				if d, e := g.Left(); tc.lost && (d != 0 || e != 0 || g.Valid()) {
					t.Errorf("clocks that can't tell leave %v and %v, valid %v", d, e, g.Valid())
				}
			})
		})
	}
}

// The simulation pauses a candidate at the gate, as SIGSTOP would: what the
// candidate reads passes it, what the checker reads does not.
func TestOnlyTheCandidateStandsAtTheGate(t *testing.T) {
	passed := 0
	c := lease.NewClock(&lease.Warp{Gate: func() { passed++ }})
	s := c.Now()
	c.Since(s)
	g := lease.NewGrant(c, timing(time.Hour), s)
	g.Valid()
	if passed != 3 {
		t.Errorf("passed %d times, want once a reading", passed)
	}
	g.TrueDeadline()
	if passed != 3 {
		t.Error("the checker stood at the gate")
	}
}
