package electorhttp

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/mandate-dev/mandate/elector"
)

// kept is how many events a client that was away can still get.
const kept = 256

// journal numbers the events and keeps the last ones, for any number of readers
// at their own pace. No writer ever waits for a reader.
type journal struct {
	session string // distinguishes the numbers of this process from those of another one

	mu      sync.Mutex
	entries []elector.Event // the last ones, oldest first
	last    uint64          // the number of the newest; the first one is 1
	elected *elector.Event  // nil: no candidate leads
	ended   uint64          // the token of the term that ended last
	term    uint64          // the token of the term that began last
	passed  chan struct{}   // closed when another one begins
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
	j.elected = nil // it will not be known when this ends
	j.wake()
}

// wake is called with the lock held.
func (j *journal) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) add(ev elector.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch ev.Kind { //nolint:exhaustive // the others do not change who leads
	case elector.EventElected: // the newest is right, also when its token is lower
		j.elected = &ev
		if j.term != ev.Token {
			close(j.passed)
			j.term, j.passed = ev.Token, make(chan struct{})
		}
	case elector.EventAddress:
		if j.elected != nil && j.elected.Token == ev.Token {
			now := *j.elected // readers may hold the one before
			now.Advertise = ev.Advertise
			j.elected = &now
		}
	case elector.EventStopping: // of this candidate; it holds the lock until its work has stopped
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

// leader is who leads as far as is known, nil when no candidate does.
func (j *journal) leader() *elector.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.elected
}

// changes is closed at the next event.
func (j *journal) changes() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// over reports whether the term of a token is known to have ended.
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

// next is closed when a term other than that of the token has begun.
func (j *journal) next(token uint64) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.term != token {
		return past
	}
	return j.passed
}

// now is how things stand, for a reader who knows nothing: as an event with the
// number of the newest one. False: nothing was received yet.
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

// after are the events after a number: how many of them are lost, and what to
// wait on for more.
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

// number reads an id of ours; false for one of another process, or of the future.
func (j *journal) number(id string) (uint64, bool) {
	s, ok := strings.CutPrefix(id, j.session+"-")
	n, err := strconv.ParseUint(s, 10, 64)
	j.mu.Lock()
	defer j.mu.Unlock()
	return n, ok && err == nil && n <= j.last && fmt.Sprint(n) == s
}
