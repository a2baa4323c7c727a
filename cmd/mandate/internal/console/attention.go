package console

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// attention is which elections viewers have opened: they are read more often than those
// that are only a row.
type attention struct {
	mu      sync.Mutex
	opened  map[string]int
	all     int // elections that are followed
	changed chan struct{}
}

func newAttention() *attention {
	return &attention{opened: map[string]int{}, changed: make(chan struct{})}
}

// open notes that a viewer has opened elections, until it calls closed.
func (a *attention) open(elections []string) (closed func()) {
	a.add(elections, 1)
	return func() { a.add(elections, -1) }
}

func (a *attention) add(elections []string, by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range elections {
		if a.opened[e] += by; a.opened[e] <= 0 {
			delete(a.opened, e)
		}
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// isOpen are the elections and groups that are open, and what to wait on for a change.
func (a *attention) isOpen() (names []string, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.opened)), a.changed
}

func (a *attention) follow(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = n
}

func (a *attention) followed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// attended is how an election is read now.
type attended struct {
	open  bool
	close bool          // changes are waited for; otherwise they are found at the next look
	look  time.Duration // at least, between two looks
	roll  time.Duration
}

// What all closed rows together may cost: with 200 elections a look each second and a
// roll call each 20 s, with 2000 one tenth of that each.
const (
	readEvery   = time.Second // and more often with a lease below 4 s
	rollEvery   = 10 * time.Second
	lookShare   = 5 * time.Millisecond
	rollShare   = 100 * time.Millisecond
	closelyUpTo = 200 // elections, whether they are open or not
)

func (a *attention) of(election string) (attended, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	times := func(share time.Duration) time.Duration { return time.Duration(int64(a.all) * int64(share)) }
	at := attended{open: a.opened[election] > 0, look: max(readEvery, times(lookShare)), roll: max(rollEvery, times(rollShare))}
	at.close = at.open || a.all <= closelyUpTo
	if at.open {
		at.look, at.roll = readEvery, rollEvery
	}
	return at, a.changed
}
