package elector

import (
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// guards end terms at their deadlines, also when the goroutines that renew them are stuck. They look at the clock
// every now and then, because timers stand still while a machine sleeps: many terms by one timer, because nearly
// always their leases have been renewed.
type guards struct {
	mu      sync.Mutex
	watches map[time.Duration]*watch // the one that has room, by how often it looks
}

// maxWatched is how many terms one timer looks after: one that ends must not wait for ten thousand others.
const maxWatched = 256

// watch is some of the terms. Its terms are guarded by the mutex of its guards.
type watch struct {
	of    *guards
	every time.Duration
	terms []*Term
	timer *time.Timer
}

// add guards a term until it has ended.
func (g *guards) add(t *Term, every time.Duration) {
	t.expiry.every = every
	left, _ := t.grant.Left()
	t.lookIn(left)
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.watches[every]
	if w == nil || len(w.terms) >= maxWatched {
		w = &watch{of: g, every: every}
		if g.watches == nil {
			g.watches = map[time.Duration]*watch{}
		}
		g.watches[every] = w
		w.timer = time.AfterFunc(every, w.look)
	}
	w.terms = append(w.terms, t)
}

func (w *watch) look() {
	w.of.mu.Lock()
	all := slices.Clone(w.terms)
	w.of.mu.Unlock()
	for _, t := range all {
		t.look()
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.terms = slices.DeleteFunc(w.terms, func(t *Term) bool { return t.ended.Load() })
	if len(w.terms) > 0 {
		w.timer.Reset(w.every)
	} else if w.of.watches[w.every] == w {
		delete(w.of.watches, w.every)
	}
}

// look ends the term if its deadline has passed, and notes for an ExpiredError that this process ran.
func (t *Term) look() {
	if t.ended.Load() {
		return
	}
	left, _ := t.grant.Left()
	if left <= 0 {
		t.expire()
		return
	}
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.looked.Store(int64(elapsed))
	}
	t.lookIn(left)
}

// lookIn has a term whose deadline comes soon ended by a timer of its own. The next look may be late: behind other
// terms, or on a busy machine. So soon is up to the look after that one.
//
// There is one such timer, set anew: of terms whose deadlines are never far each look would begin another row of them.
func (t *Term) lookIn(left time.Duration) {
	if left <= 2*t.expiry.every {
		t.expiry.mu.Lock()
		defer t.expiry.mu.Unlock()
		if t.expiry.timer == nil {
			t.expiry.timer = time.AfterFunc(left, t.look)
		} else {
			t.expiry.timer.Reset(left)
		}
	}
}

// expire ends a term whose deadline has passed.
func (t *Term) expire() {
	elapsed, known := t.clock.Since(t.begun)
	age, ok := t.grant.Age()
	if !known || !ok {
		t.end(ReasonExpired, &ExpiredError{})
		return
	}
	t.end(ReasonExpired, t.expiry.why(elapsed, age))
}

// unconfirmed notes a renewal that no majority has confirmed: it is why the term expires if
// none is in time.
func (t *Term) unconfirmed(tally quorum.Tally) {
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.failed(elapsed, tally)
	}
}

// held is for how long the lease has covered the work: until now, or until the lease
// ended; zero when the clocks do not show it.
func (t *Term) held() time.Duration {
	elapsed, ok := t.clock.Since(t.begun)
	past, known := t.grant.Past()
	if !ok || !known {
		return 0
	}
	return max(0, elapsed-past)
}
