package elector

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// guards end terms at their deadlines, also when the goroutines that renew them are stuck. They look at the clock
// every now and then, because timers stand still while a machine sleeps: many terms by one timer, because nearly
// always their leases have been renewed.
type guards struct {
	clock lease.Clock // of this machine

	mu      sync.Mutex               // of what follows, and of the terms of the watches
	watches map[time.Duration]*watch // the one that has room, by how often it looks
}

// maxWatched is how many terms one timer looks after: one that ends must not wait for ten thousand others.
const maxWatched = 256

// watch is some of the terms.
type watch struct {
	of    *guards
	every time.Duration
	terms []watched // only a look takes out any
	last  lease.Stamp
	timer *time.Timer
}

// watched is a term as its watch knows it. While its deadline is known to be far it is passed over: to look at each of ten
// thousand leases so often costs as much as to renew every tenth of them.
type watched struct {
	term   *Term
	left   time.Duration // to the deadline, at least: renewals only put that off
	passed bool          // over, at the last look
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
		w = &watch{of: g, every: every, last: g.clock.Peek()}
		if g.watches == nil {
			g.watches = map[time.Duration]*watch{}
		}
		g.watches[every] = w
		w.timer = time.AfterFunc(every, w.look)
	}
	w.terms = append(w.terms, watched{term: t, left: g.counts(t, left)})
}

// counts is what is left to a term where the guards read the same clock; else it is looked at each time.
func (g *guards) counts(t *Term, left time.Duration) time.Duration {
	if !t.clock.SameAs(&g.clock) {
		return 0
	}
	return left
}

func (w *watch) look() {
	due, since := w.due()
	for i := range due {
		t := due[i].term
		if due[i].passed {
			t.lookedAgo(since)
		}
		due[i].left = w.of.counts(t, t.look())
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	kept := w.terms[:0]
	for _, t := range w.terms {
		if len(due) > 0 && due[0].term == t.term {
			t.left, due = due[0].left, due[1:]
			if t.term.ended.Load() {
				continue
			}
		}
		kept = append(kept, t)
	}
	clear(w.terms[len(kept):])
	w.terms = kept
	if len(w.terms) > 0 {
		w.timer.Reset(w.every)
	} else if w.of.watches[w.every] == w {
		delete(w.of.watches, w.every)
	}
}

// due are the terms that are to be looked at, and since when there has been no look: all of them where the process or the
// machine stood still, or the clocks contradict each other.
func (w *watch) due() (due []watched, since time.Duration) {
	now := w.of.clock.Now()
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	since, ok := w.of.clock.PeekSince(w.last)
	w.last = now
	ran := ok && since <= 2*w.every
	for i := range w.terms {
		t := &w.terms[i]
		t.left -= since
		pass := ran && t.left > 2*w.every // as lookIn has it
		if !pass {
			due = append(due, *t)
		}
		t.passed = pass
	}
	return due, since
}

// look ends the term if its deadline has passed, and notes for an ExpiredError that this process ran. It returns what is
// left to the deadline.
func (t *Term) look() (left time.Duration) {
	if t.ended.Load() {
		return 0
	}
	left, _ = t.grant.Left()
	if left <= 0 {
		t.expire()
		return 0
	}
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.looked.Store(int64(elapsed))
	}
	t.lookIn(left)
	return left
}

// lookedAgo notes that this process ran so long ago, when the term was passed over.
func (t *Term) lookedAgo(ago time.Duration) {
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.looked.Store(int64(max(0, elapsed-ago)))
	}
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
			t.expiry.timer = time.AfterFunc(left, func() { t.look() })
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
