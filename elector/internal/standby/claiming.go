package standby

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Due is called when the alarm goes off. true: the caller is to claim at once, in place of the goroutine that campaigns, and to report
// what that has shown, by Held or Shown; or to call Wake if it can't.
func (w *Waiter) Due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.waiting || w.claimDue || w.woken || time.Now().Before(w.due):
		return false // it was set again meanwhile, or Wait returns already
	case w.d.woken: // by a message: it may well be won
		w.wake()
		return false
	}
	w.claimDue = true
	w.d.notices = notices{} // the claim asks Redis itself
	return true
}

// Held takes a claim that has met the same leader as the one before. false: it changes more than the time of the next one, so
// the caller has to call Shown.
func (w *Waiter) Held(t quorum.Tally) bool {
	waiters, listening := w.c.Bus.Subscribers(w.c.Keys.Wake), w.c.Bus.Subscribers(w.c.Keys.Events)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.here = neighbours{waiters: waiters, listening: listening}
	now := time.Now()
	w.d.held(t, now)
	if w.d.changeRow() != stay {
		return false
	}
	w.claimDue = false
	if !w.waiting { // it waits for this
		w.signal()
		return true
	}
	w.due = time.Time{}
	w.plan(now, w.d.next(now))
	if w.resumed {
		w.resume(now)
	}
	return true
}

// Shown has Wait return the votes of a claim. It keeps them.
func (w *Waiter) Shown(t *quorum.Tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claimDue, w.votes = false, t
	w.wake()
}

// Wake has Wait return without a claim.
func (w *Waiter) Wake() { w.Shown(nil) }
