package console

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// attention keeps which elections viewers have opened. Open elections are read more often than
// those that are only a row.
type attention struct {
	mu      sync.Mutex
	opened  map[string]int
	all     int             // how many elections are followed
	idle    map[string]bool // the unused ones among them; nil if all is at most closelyUpTo
	changed chan struct{}
}

func newAttention() *attention {
	return &attention{opened: map[string]int{}, changed: make(chan struct{})}
}

// open records that a viewer has opened elections, until closed is called.
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
	a.wake()
}

// The caller holds mu.
func (a *attention) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// isOpen returns the elections and groups that are open, and a channel that is closed at the next
// change.
func (a *attention) isOpen() (names []string, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.opened)), a.changed
}

// follow records how many elections are followed, and which of them are idle.
func (a *attention) follow(all int, idle map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if all <= closelyUpTo {
		idle = nil
	}
	woken := false
	for name := range a.idle {
		woken = woken || !idle[name]
	}
	if a.all, a.idle = all, idle; woken {
		a.wake()
	}
}

func (a *attention) followed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// attended describes how often an election is read at present.
type attended struct {
	open  bool
	idle  bool
	close bool          // changes are observed; otherwise they are found at the next read
	look  time.Duration // minimum time between two reads of the status
	roll  time.Duration
}

// These bound the load of all closed rows together: with 200 elections each is read once a second,
// with a roll call every 20 s, and with 2000 elections a tenth as often. Idle elections have a
// separate share, a quarter of that, so however many there are, those in use are read as often as
// without them.
const (
	readEvery   = time.Second // more often with a lease below 4 s
	rollEvery   = 10 * time.Second
	lookShare   = 5 * time.Millisecond
	rollShare   = 100 * time.Millisecond
	idleTimes   = 4
	closelyUpTo = 200 // elections, whether they are open or not
)

func (a *attention) of(election string) (attended, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := attended{open: a.opened[election] > 0, idle: a.idle[election]}
	n := max(0, a.all-len(a.idle))
	at.close = at.open || n <= closelyUpTo && !at.idle
	if at.idle {
		n = idleTimes * len(a.idle)
	}
	times := func(share time.Duration) time.Duration { return time.Duration(int64(n) * int64(share)) }
	at.look, at.roll = max(readEvery, times(lookShare)), max(rollEvery, times(rollShare))
	if at.open {
		at.look, at.roll = readEvery, rollEvery
	}
	return at, a.changed
}
