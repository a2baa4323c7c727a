package elector

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// How long an observer waits for reports that are under way.
const (
	// reportDelay is how long an observer waits after a message for others that belong to
	// it: the new leader's "elected" may overtake the old leader's "released".
	reportDelay = 5 * time.Millisecond
	// waitForEnd is how long an observer waits for the report of a term's end when no candidate
	// leads, and waitForOldEnd when the next leader leads already. Both count from when it first
	// missed the report, however often it queries meanwhile. On a busy machine a report takes
	// that long.
	waitForEnd    = 4 * reportDelay
	waitForOldEnd = 8 * reportDelay
	// waitForLateEnd bounds observer.early, a fraction of the lease: a lease may be hours.
	waitForLateEnd = time.Second
)

// reported is what an observer has reported so far.
type reported struct {
	begun  bool          // the initial state was reported
	term   Event         // the Elected of the newest term; without a token: there was none
	ending ending        // what was reported of that term's end
	newest uint64        // terms up to this token are reported, or older than the initial state
	missed time.Time     // when the report of that term's end was first missed; zero: it was not
	early  time.Duration // reading.early then
}

type ending int

const (
	notEnded      ending = iota
	endedVacant          // EventVacant: no candidate leads in Redis, and no report gave a reason
	endedReported        // EventReleased: its end was reported
)

// reading is what one query of Redis returned, and what was known when it was sent.
type reading struct {
	status   Status
	err      error
	history  []Event // what leaders recorded, from all nodes, in any order
	messages []Event // that arrived before
	changes  int     // observer.changes

	stays bool          // the lock outlives the reported end of its term: see observer.stillRenewed
	early time.Duration // how long to wait for the end of the reported term, because its lease has not expired; 0: it has
	hurry bool          // this process leads: no report is waited for
}

// merge compares a reading of Redis with what was reported. It returns the events to
// report, in order, and the state of the observer after them. A wait above zero means that
// a report is probably still under way: read again after it, with the same messages.
//
// The reading decides, even if its token is lower than the one before (a node whose clock
// was ahead lost its data). Leaders and their tokens come from the lock, and for
// terms that began and ended since the last reading, from the history. A message adds a
// time and a reason to one of those, and nothing else. Waits are measured by now's
// monotonic clock.
func (s reported) merge(r reading, now time.Time) (events []Event, next reported, wait time.Duration) {
	highest := r.status.highest() // no token is above it
	r.history = slices.DeleteFunc(slices.Clone(r.history), func(ev Event) bool { return ev.Token > highest })
	leader, messages := s.agreed(r), r.messages
	if !s.begun {
		events = s.begin(r, leader, messages, now)
		return events, s, 0
	}
	if leader != nil && leader.Token == s.term.Token && leader.sameLife(s.term) {
		s.missed = time.Time{}
		if s.ending == endedVacant || s.ending == endedReported && r.stays { // the leader still leads
			s.ending = notEnded
			events = append(events, s.term)
		}
		return events, s, 0 // after a reported end, the lock may remain for up to a lease
	}

	for _, t := range s.between(r.history, leader) {
		if events, wait = s.close(events, r, messages, now, true); wait > 0 {
			return events, s, wait
		}
		events = s.pass(events, t)
	}
	events, wait = s.close(events, r, messages, now, leader != nil)
	switch {
	case wait > 0:
	case leader != nil:
		events = append(events, s.elect(leader, r.history, messages, now))
	case s.ending == notEnded && s.term.Token != 0:
		s.ending = endedVacant
		events = append(events, Event{Version: eventVersion, Kind: EventVacant, Token: s.term.Token, Time: now.Round(0)})
	}
	return events, s, wait
}

// close reports the end of the newest term as soon as a report of it is there. Until then
// it returns how much longer to wait for that report before reporting what followed.
// followed: the next term has begun.
func (s *reported) close(events []Event, r reading, messages []Event, now time.Time, followed bool) ([]Event, time.Duration) {
	if s.ending != notEnded || s.term.Token == 0 {
		return events, 0
	}
	if end, ok := endOf(s.term, r.history, messages); ok {
		s.ending = endedReported
		return append(events, end), 0
	}
	if r.hurry {
		return events, 0
	}
	if s.missed.IsZero() {
		s.missed, s.early = now, r.early
	}
	limit := waitForEnd
	if followed {
		limit = max(waitForOldEnd, s.early)
	}
	return events, max(0, limit-now.Sub(s.missed))
}

// begin reports the initial state. Terms that the history already holds are not reported.
func (s *reported) begin(r reading, leader *Leader, messages []Event, now time.Time) []Event {
	s.begun, s.ending = true, endedReported
	for _, ev := range r.history {
		s.newest = max(s.newest, ev.Token)
	}
	if leader == nil {
		return []Event{{Version: eventVersion, Kind: EventVacant, Time: now.Round(0)}}
	}
	return []Event{s.elect(leader, r.history, messages, now)}
}

// elect returns the EventElected of the leader that Redis shows, and makes its term the newest.
func (s *reported) elect(l *Leader, history, messages []Event, now time.Time) Event {
	ev := Event{
		Version: eventVersion, Kind: EventElected,
		Candidate: l.Candidate, Incarnation: l.Incarnation, Advertise: l.Advertise, Token: l.Token, Time: now.Round(0),
	}
	of := func(m Event) bool {
		return m.Kind == EventElected && m.Token == ev.Token && m.about(ev) && !m.Time.IsZero()
	}
	for _, source := range [][]Event{history, messages} {
		if i := slices.IndexFunc(source, of); i >= 0 {
			ev.Time = source[i].Time
			break
		}
	}
	s.term, s.ending, s.missed, s.newest = ev, notEnded, time.Time{}, max(s.newest, ev.Token)
	return ev
}

// agreed returns the leader with the token of its term. Until the leader's first renewal the
// nodes may name the different tokens that they granted; then the history decides, or else
// what was reported.
func (s reported) agreed(r reading) *Leader {
	if r.status.Leader == nil || r.status.Leader.holder.TokenAgreed {
		return r.status.Leader
	}
	l := *r.status.Leader
	found := false
	for _, ev := range r.history {
		if ev.Kind == EventElected && ev.Candidate == l.Candidate && l.sameLife(ev) && ev.Token >= l.holder.Lowest && (!found || ev.Token > l.Token) {
			l.Token, found = ev.Token, true
		}
	}
	if t := s.term; !found && t.Candidate == l.Candidate && l.sameLife(t) && t.Token >= l.holder.Lowest {
		l.Token = t.Token
	}
	return &l
}

// sameLife reports whether an event is about the leader's incarnation. An event or a leader
// without an incarnation matches any.
func (l *Leader) sameLife(ev Event) bool {
	return l.Incarnation == "" || ev.Incarnation == "" || l.Incarnation == ev.Incarnation
}

// about reports whether two events are about the same candidate, and the same incarnation if
// both name one.
func (ev Event) about(other Event) bool {
	return ev.Candidate == other.Candidate && (ev.Incarnation == "" || other.Incarnation == "" || ev.Incarnation == other.Incarnation)
}

// endOf returns the EventReleased of a term, with the reason and the time of the first report
// of its end that the sources hold.
func endOf(term Event, sources ...[]Event) (Event, bool) {
	for _, source := range sources {
		for _, ev := range source {
			if ev.Kind != EventReleased || ev.Token != term.Token || !ev.about(term) {
				continue
			}
			end := term
			end.Kind, end.Reason, end.Detail, end.Next, end.Time = EventReleased, ev.Reason, ev.Detail, ev.Next, ev.Time
			return end, true
		}
	}
	return Event{}, false
}

// passed is a term that began and ended between two readings, as the history has it.
type passed struct{ elected, released Event }

// between returns the terms in the history that are newer than the newest reported one and older
// than the leader's, in order.
func (s *reported) between(history []Event, leader *Leader) []passed {
	terms := map[uint64]passed{}
	for _, ev := range history {
		if ev.Token <= s.newest || leader != nil && ev.Token >= leader.Token {
			continue
		}
		t := terms[ev.Token]
		switch ev.Kind {
		case EventElected:
			t.elected = ev
		case EventReleased:
			t.released = ev
		default:
			continue
		}
		terms[ev.Token] = t
	}
	return slices.SortedFunc(maps.Values(terms), func(a, b passed) int { return cmp.Compare(a.token(), b.token()) })
}

func (t passed) token() uint64 { return max(t.elected.Token, t.released.Token) }

// pass reports the begin of a passed term.
func (s *reported) pass(events []Event, t passed) []Event {
	s.ending, s.missed, s.newest = notEnded, time.Time{}, t.token()
	if t.elected.Token == 0 { // its begin was not recorded
		s.term = t.released
		return events
	}
	s.term = t.elected
	return append(events, t.elected)
}
