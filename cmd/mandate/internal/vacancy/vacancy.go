// Package vacancy reckons since when an election has had no leader, for a program that looks
// at it again and again.
package vacancy

import "time"

// Missed is for how long an election that has neither a leader nor candidates is taken for an
// outage. Later it seems to be unused.
const Missed = 24 * time.Hour

// Sight is what repeated looks at one election have shown of its leadership. The zero Sight is
// that of an election that was not looked at yet. Not safe for concurrent use.
type Sight struct {
	led    time.Time // when a leader was seen last
	vacant time.Time // since when there has been none; zero: there is one, or no look yet
}

// Look takes what a look at Redis has shown: whether there was a leader.
func (s *Sight) Look(leader bool, now time.Time) {
	switch {
	case leader:
		*s = Sight{led: now}
	case s.vacant.IsZero():
		s.vacant = now
	}
}

// Recorded takes what the history shows of the last term after a look that has shown no
// leader: when it began and when it ended, zero where that is not known. To take the same
// again changes nothing.
//
// A term whose end was never reported may have lasted until a moment ago, however long ago it
// began: its vacancy counts from when it was first seen. Too short is the safe side: an election
// that has been vacant for a day and has no candidates counts as abandoned, and no longer
// alarms anyone.
func (s *Sight) Recorded(began, ended, now time.Time) {
	switch {
	case s.vacant.IsZero():
	case ended.After(s.led): // otherwise it is the end of an earlier term
		s.vacant = ended
	case began.After(s.vacant): // a leader came and vanished between two looks
		s.vacant = now
	}
}

// Led reports whether any look has shown a leader.
func (s *Sight) Led() bool { return !s.led.IsZero() }

// Since is since when there has been no leader; zero while there is one.
func (s *Sight) Since() time.Time { return s.vacant }

// For is for how long there has been no leader: zero while there is one or before the first
// look, and never zero otherwise.
func (s *Sight) For(now time.Time) time.Duration {
	if s.vacant.IsZero() {
		return 0
	}
	return max(time.Millisecond, now.Sub(s.vacant))
}

// Abandoned reports whether an election that has no candidates is missed by no one: there has
// been no leader for a day, or never as far as is known; never: the history has no term.
func (s *Sight) Abandoned(never bool, now time.Time) bool {
	return never && !s.Led() || s.For(now) > Missed
}
