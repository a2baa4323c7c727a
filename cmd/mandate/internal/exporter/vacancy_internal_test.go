package exporter

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// at is so many hours after noon, or before it.
func at(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }

func TestVacancyBegins(t *testing.T) {
	t.Parallel()
	var unknown time.Time
	for name, test := range map[string]struct {
		looks func(s *sight)
		want  time.Time // zero: no vacancy
		led   bool
	}{
		"not looked at":                 {func(*sight) {}, unknown, false},
		"a leader":                      {func(s *sight) { s.look(true, at(0)) }, unknown, true},
		"no leader at the first look":   {func(s *sight) { s.look(false, at(0)); s.look(false, at(1)) }, at(0), false},
		"a leader that is gone":         {func(s *sight) { s.look(true, at(0)); s.look(false, at(1)); s.look(false, at(2)) }, at(1), true},
		"another leader":                {func(s *sight) { s.look(false, at(0)); s.look(true, at(1)) }, unknown, true},
		"the history before the look":   {func(s *sight) { s.recorded(at(-5), at(-4), at(0)); s.look(false, at(0)) }, at(0), false},
		"its end was reported":          {func(s *sight) { s.look(false, at(0)); s.recorded(at(-5), at(-4), at(0)) }, at(-4), false},
		"its end is that of one before": {func(s *sight) { s.look(true, at(0)); s.look(false, at(1)); s.recorded(at(-5), at(-4), at(1)) }, at(1), true},
		"its end was never reported":    {func(s *sight) { s.look(false, at(0)); s.recorded(at(-72), unknown, at(0)) }, at(0), false},
		"the end was not yet in it": {func(s *sight) {
			s.look(false, at(0))
			s.recorded(at(-5), unknown, at(0))
			s.recorded(at(-5), at(-1), at(1))
		}, at(-1), false},
		"the history can't be read again": {func(s *sight) {
			s.look(false, at(0))
			s.recorded(at(-5), at(-4), at(0))
			s.recorded(unknown, unknown, at(1))
		}, at(-4), false},
		// Both would be counted from the vacancy before.
		"another ended between two looks": {func(s *sight) { s.look(false, at(0)); s.recorded(at(1), at(2), at(3)) }, at(2), false},
		"another vanished between two looks": {func(s *sight) {
			s.look(false, at(0))
			s.recorded(at(1), unknown, at(3))
			s.recorded(at(1), unknown, at(4))
		}, at(3), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s sight
			test.looks(&s)
			if got := s.vacant; !got.Equal(test.want) {
				t.Errorf("vacant since %v, want %v", got, test.want)
			}
			if got := s.hasLed(); got != test.led {
				t.Errorf("a leader was seen: %v", got)
			}
		})
	}
}

// A metric of 0 says that there is a leader: a vacancy must not begin with it.
func TestVacancyIsNeverZeroLong(t *testing.T) {
	t.Parallel()
	var s sight
	if d := s.lasts(at(0)); d != 0 {
		t.Errorf("not looked at: %v", d)
	}
	s.look(true, at(0))
	if d := s.lasts(at(1)); d != 0 {
		t.Errorf("with a leader: %v", d)
	}
	s.look(false, at(1))
	for now, want := range map[time.Time]time.Duration{at(1): time.Millisecond, at(0): time.Millisecond, at(3): 2 * time.Hour} {
		if d := s.lasts(now); d != want {
			t.Errorf("at %v: %v, want %v", now, d, want)
		}
	}
}
