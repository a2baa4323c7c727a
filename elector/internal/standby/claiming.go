package standby

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Due is called when the alarm goes off. When it returns true, the caller must claim at once, in
// place of the goroutine that campaigns, and pass the result to ClaimUnchanged or ClaimChanged; or call Wake if it
// can't claim.
func (w *Waiter) Due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.waiting || w.claimDue || w.woken || time.Now().Before(w.due):
		return false // the alarm was set again meanwhile, or Wait is returning already
	case w.d.woken: // a message caused this claim, which may well win: the campaigning goroutine makes it
		w.wake()
		return false
	}
	w.claimDue = true
	w.d.notices = notices{} // the claim reads the state from Redis
	return true
}

// ClaimUnchanged processes a claim that met the same leader as the claim before. When it returns false, the
// result changes more than the time of the next claim, and the caller must call ClaimChanged.
func (w *Waiter) ClaimUnchanged(t quorum.Tally) bool {
	waiters, listening := w.c.Bus.Subscribers(w.c.Keys.Wake), w.c.Bus.Subscribers(w.c.Keys.Events)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.localFollowers = neighbours{waiters: waiters, listening: listening}
	now := time.Now()
	w.d.held(t, now)
	if w.d.changeRow() != stay {
		return false
	}
	w.claimDue = false
	if !w.waiting { // end waits for this claim
		w.signal()
		return true
	}
	w.replan(now)
	return true
}

// ClaimChanged makes Wait return the votes of a claim. The Waiter keeps t: the caller must not change it.
func (w *Waiter) ClaimChanged(t *quorum.Tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claimDue, w.votes = false, t
	w.wake()
}

// Wake makes Wait return nil: no claim was made.
func (w *Waiter) Wake() { w.ClaimChanged(nil) }
