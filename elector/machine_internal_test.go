package elector

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// Who was unhealthy, failed, resigned or made room rests; who lost the lock through no fault of
// its own runs again at once.
func TestRestAfterEachReason(t *testing.T) {
	cfg := Config{Cooldown: 8 * time.Second, RestartDelay: time.Second}
	for r, want := range map[Reason]time.Duration{
		ReasonUnhealthy: 8 * time.Second, ReasonFailed: 8 * time.Second, ReasonResigned: 8 * time.Second, ReasonHandover: 8 * time.Second,
		ReasonFinished: time.Second, ReasonLost: 0, ReasonExpired: 0,
	} {
		if got := cfg.restAfter(r, 1); got != want {
			t.Errorf("%s: %v, want %v", r, got, want)
		}
	}
	for trips, cooldowns := range map[int]int{1: 1, 2: 2, 3: 4, 4: 8, 5: 16, 6: 16, 60: 16} {
		if got, want := cfg.restAfter(ReasonUnhealthy, trips), cooldowns*8; got.Seconds() != float64(want) {
			t.Errorf("trip %d: %v, want %d s", trips, got, want)
		}
		if got, want := (&Config{Cooldown: MaxLease}).restAfter(ReasonFailed, trips), time.Duration(cooldowns)*MaxLease; got != want {
			t.Errorf("trip %d: %v, want %v", trips, got, want)
		}
	}
}

// A candidate that trips again and again rests longer each time; a good term, or another
// end, is a new beginning: else one bad day would keep it out for ever.
func TestTripsInARow(t *testing.T) {
	for _, c := range []struct {
		trips  int
		reason Reason
		led    time.Duration
		want   int
	}{
		{0, ReasonUnhealthy, 0, 1},
		{1, ReasonUnhealthy, time.Second, 2},
		{2, ReasonUnhealthy, 4 * time.Second, 3},
		{2, ReasonUnhealthy, 4*time.Second + 1, 1},
		{0, ReasonUnhealthy, time.Hour, 1},
		{3, ReasonLost, 0, 0},
		{3, ReasonResigned, time.Hour, 0},
	} {
		if got := countFailures(c.trips, c.reason, c.led, time.Second); got != c.want {
			t.Errorf("%s after %v, %d before: %d, want %d", c.reason, c.led, c.trips, got, c.want)
		}
	}
}

// When Resign returns, the machine may not have left its role yet: a readiness check at
// that moment must not report work that has returned long ago.
func TestCheckBetweenATermAndItsRest(t *testing.T) {
	clock := lease.NewClock(nil)
	term := &Term{grant: lease.NewGrant(clock, lease.Timing{}, clock.Now()), over: make(chan struct{})} // has ended
	e := &Elector{candidate: candidate{election: &Election{}, role: RoleStopping}}
	e.term.Store(term)
	if err := e.Check(); err == nil || !strings.Contains(err.Error(), "has not returned") {
		t.Errorf("while the work runs on: %v", err)
	}
	close(term.over)
	if err := e.Check(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
