package exporter

import "time"

// missed is for how long an election with neither a leader nor candidates counts as an outage.
// After that it seems to be unused.
const missed = 24 * time.Hour

// sight is what repeated reads of one election have shown of its leadership. The zero sight is that
// of an election that was not read yet. It is not safe for concurrent use.
type sight struct {
	led    time.Time // when a leader was last seen
	vacant time.Time // since when there has been none; zero: there is one, or no read yet
}

// look records what a read of the status has shown: whether there was a leader.
func (s *sight) look(leader bool, now time.Time) {
	switch {
	case leader:
		*s = sight{led: now}
	case s.vacant.IsZero():
		s.vacant = now
	}
}

// recorded records what the history has of the last term, after a read that has shown no leader:
// when the term began and when it ended, zero if unknown. Recording the same again has no effect.
//
// A term whose end was never reported may have lasted until a moment ago, however long ago it
// began: its vacancy counts from when it was first seen. Too short is the safe side: an election
// that has been vacant for a day and has no candidates counts as abandoned, and no longer raises an
// alarm.
func (s *sight) recorded(began, ended, now time.Time) {
	switch {
	case s.vacant.IsZero():
	case ended.After(s.led): // otherwise it is the end of an earlier term
		s.vacant = ended
	case began.After(s.vacant): // a leader was elected and vanished between two reads
		s.vacant = now
	}
}

// hasLed reports whether any read has shown a leader.
func (s *sight) hasLed() bool { return !s.led.IsZero() }

// lasts returns for how long there has been no leader. It returns zero while there is one and before
// the first read, and never otherwise.
func (s *sight) lasts(now time.Time) time.Duration {
	if s.vacant.IsZero() {
		return 0
	}
	return max(time.Millisecond, now.Sub(s.vacant))
}

// abandoned reports whether an election that has no candidates seems to be unused: it has had no
// leader for a day, or never as far as is known. never: the history has no term.
func (s *sight) abandoned(never bool, now time.Time) bool {
	return never && !s.hasLed() || s.lasts(now) > missed
}
