package elector

import (
	"errors"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// guards end terms at their deadlines, even when the goroutines that renew them are stuck. They check
// the terms at regular intervals, because timers stand still while the host is suspended. One timer
// checks many terms, because nearly always their leases have been renewed.
type guards struct {
	clock lease.Clock // of this host

	mu      sync.Mutex               // of all below, and of the fields of the watches
	watches map[time.Duration]*watch // the watch that has room, by its interval
}

// maxWatched is how many terms one watch checks: a term that has to end must not wait for ten
// thousand others.
const maxWatched = 256

// watch checks some of the terms.
type watch struct {
	of    *guards
	every time.Duration
	terms []watched   // only look removes terms
	last  lease.Stamp // when due was last called
	timer *time.Timer
}

// watched is a term in a watch. While its deadline is known to be far off, the watch skips it:
// checking each of ten thousand leases that often would cost as much as renewing every tenth of them.
type watched struct {
	term   *Term
	left   time.Duration // the time to the deadline, at least: renewals only put it off
	passed bool          // the term was skipped at the last look
}

// add guards a term until it has ended. every is the interval of the checks.
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

// counts returns left if the term's clock is that of the guards, otherwise 0: the term is then checked
// each time.
func (g *guards) counts(t *Term, left time.Duration) time.Duration {
	if !t.clock.SameAs(&g.clock) {
		return 0
	}
	return left
}

// look checks the terms that are due, removes those that have ended, and sets the timer again.
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

// due returns the terms that have to be checked, and the time since the last look. All terms have to
// be checked if the process or the host was suspended, or if the clocks contradict each other.
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
		pass := ran && t.left > 2*w.every // lookIn has the same bound
		if !pass {
			due = append(due, *t)
		}
		t.passed = pass
	}
	return due, since
}

// look ends the term if its deadline has passed; otherwise it records, for an expiredError, that this
// process is running. It returns the time to the deadline.
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

// lookedAgo records that this process was running that long ago, when the watch skipped the term.
func (t *Term) lookedAgo(ago time.Duration) {
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.looked.Store(int64(max(0, elapsed-ago)))
	}
}

// lookIn sets a timer of the term's own if its deadline is near, because the watch may check it late:
// behind other terms, or on a busy host. Near is up to the look after the next one.
//
// A term has one such timer, which is reset: with short leases the deadline is always near, and each
// look would start another chain of timers.
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
		t.end(ReasonExpired, errors.New("the clocks of this host contradict each other: it was suspended, or its clock was set"))
		return
	}
	t.end(ReasonExpired, t.expiry.why(elapsed, age))
}

// unconfirmed records a renewal that no majority has confirmed: it explains why the term expires if
// no later one is confirmed in time.
func (t *Term) unconfirmed(tally quorum.Tally) {
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.failed(elapsed, tally)
	}
}

// held returns for how long the lease has covered the work: until now, or until the deadline if that
// has passed; zero when the clocks do not show it.
func (t *Term) held() time.Duration {
	elapsed, ok := t.clock.Since(t.begun)
	past, known := t.grant.Past()
	if !ok || !known {
		return 0
	}
	return max(0, elapsed-past)
}
