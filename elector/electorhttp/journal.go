package electorhttp

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/mandate-dev/mandate/elector"
)

// kept is how many past events a client that reconnects can still get.
const kept = 256

// journal numbers the events and keeps the last ones, for any number of readers
// at their own pace. No writer ever waits for a reader.
type journal struct {
	session string // distinguishes the numbers of this process from those of another one

	mu      sync.Mutex      // guards all below
	entries []elector.Event // the last events, oldest first
	last    uint64          // the number of the newest event; the first event has 1
	elected *elector.Event  // nil: no candidate leads
	ended   uint64          // the token of the term that ended last
	term    uint64          // the token of the term that began last
	passed  chan struct{}   // closed when another term begins
	changed chan struct{}   // closed at the next change
	closed  bool
}

func newJournal() *journal {
	return &journal{session: rand.Text()[:10], changed: make(chan struct{}), passed: make(chan struct{}), closed: true}
}

func (j *journal) open() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = false
}

func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.elected = nil // the end of that term would not be noticed
	j.wake()
}

// wake wakes the readers. The caller holds mu.
func (j *journal) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) add(ev elector.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch ev.Kind { //nolint:exhaustive // the others do not change who leads
	case elector.EventElected: // the newest event is right, even if its token is lower
		j.elected = &ev
		if j.term != ev.Token {
			close(j.passed)
			j.term, j.passed = ev.Token, make(chan struct{})
		}
	case elector.EventAddress:
		if j.elected != nil && j.elected.Token == ev.Token {
			now := *j.elected // a copy: readers may still hold the old event
			now.Advertise = ev.Advertise
			j.elected = &now
		}
	case elector.EventStopping: // of this candidate, which holds the lock until its work has stopped
		j.ended = ev.Token
	case elector.EventReleased, elector.EventVacant:
		j.elected, j.ended = nil, ev.Token
	}
	j.last++
	j.entries = append(j.entries, ev)
	if len(j.entries) > kept {
		j.entries = append([]elector.Event(nil), j.entries[len(j.entries)-kept:]...)
	}
	j.wake()
}

// leader returns the event that elected the leader, as far as is known; nil: no candidate leads.
func (j *journal) leader() *elector.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.elected
}

// changes returns a channel that is closed at the next event.
func (j *journal) changes() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// over reports whether the term with this token is known to have ended.
func (j *journal) over(token uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return token <= j.ended || token < j.term
}

var past = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// next returns a channel that is closed when a term other than that of the token has begun.
func (j *journal) next(token uint64) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.term != token {
		return past
	}
	return j.passed
}

// now returns the current state, for a new reader: as an event, and the number of the
// newest one. False: no event was received yet.
func (j *journal) now(election string) (elector.Event, uint64, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.last == 0:
		return elector.Event{}, 0, false
	case j.elected != nil:
		return *j.elected, j.last, true
	default:
		return elector.Event{Version: 1, Kind: elector.EventVacant, Election: election, Token: j.ended, Time: j.entries[len(j.entries)-1].Time}, j.last, true
	}
}

// after returns the events after number n, how many of them are lost, and a channel that
// is closed when there are more.
func (j *journal) after(n uint64) (events []elector.Event, lost int, changed <-chan struct{}, closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := j.last - uint64(len(j.entries)) // the number before the oldest
	if n < first {
		lost, n = int(first-n), first
	}
	return append(events, j.entries[n-first:]...), lost, j.changed, j.closed
}

func (j *journal) id(n uint64) string { return j.session + "-" + strconv.FormatUint(n, 10) }

// number reads an event id of this journal; false: it is of another process, or of a future event.
func (j *journal) number(id string) (uint64, bool) {
	s, ok := strings.CutPrefix(id, j.session+"-")
	n, err := strconv.ParseUint(s, 10, 64)
	j.mu.Lock()
	defer j.mu.Unlock()
	return n, ok && err == nil && n <= j.last && fmt.Sprint(n) == s
}
