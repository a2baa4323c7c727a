package elector

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Timing of the waiters. A timer of an idle Go process is no finer than about
// 1 ms.
const (
	frontRowLead = 2 * time.Millisecond // between telling the front row and all others
	slot         = time.Millisecond     // between two claims of the front row, at least
	// A key lives until the millisecond after its time to live. Whoever goes first
	// comes a little early: at the worst it is refused once more.
	afterLease  = 200 * time.Microsecond
	rowAhead    = 5 * time.Millisecond   // what the others leave to the front row
	perFollower = 100 * time.Microsecond // by which the others spread
)

// waiter decides when to claim again: when the lease that it saw would end, or
// earlier when a release is heard. Messages are hints; only asking tells.
type waiter struct {
	e          *Elector
	stopEvents func()
	stopWake   func() // nil while not in the front row

	poke chan struct{}

	mu      sync.Mutex // of all below
	notices notices
	backoff time.Duration
	at      time.Time // when to claim, if nothing is heard
	waiters int       // in the front row, as last told
	crowd   int       // listening in all, as last told
	rtt     time.Duration
	held    string    // the holder of the last claim
	first   bool      // a majority of the nodes names us as the first to try after it
	token   uint64    // its term's token
	muted   time.Time // no message makes us claim before this: the last one was false
	woken   bool      // the last claim was made because of a message
}

func (e *Elector) newWaiter() *waiter {
	w := &waiter{e: e, poke: make(chan struct{}, 1)}
	w.stopEvents = e.quorum.bus.Subscribe(e.keys.Events, w.receive)
	return w
}

func (w *waiter) close() {
	w.stopEvents()
	w.leaveRow()
}

func (w *waiter) leaveRow() {
	if w.stopWake != nil {
		w.stopWake()
		w.stopWake = nil
	}
}

// claiming forgets what was received: the claim asks Redis itself.
func (w *waiter) claiming() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = notices{}
}

// plan computes when to claim again from what the last claim told.
func (w *waiter) plan(t quorum.Tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	majority := w.e.quorum.nodes.Majority()
	w.rtt = t.RTT
	w.crowds(t)
	in, _ := quorum.IncumbentOf(t.Holders(), majority)
	holder := in.Attempt
	w.first = t.Named() >= majority
	if w.woken && holder != "" && holder == w.held {
		w.muted = now.Add(w.e.timing.RetryEvery()) // a false alarm: don't be driven by whoever sends them
	}
	w.held, w.token, w.woken = holder, in.Token, false

	w.notices.forget(w.token)

	left, ok := opensAt(t, majority)
	switch {
	case !ok: // too few answered: again soon, then less and less often
		w.backoff = min(max(2*w.backoff, w.e.cfg.Lease/64), w.e.cfg.Lease/4)
		w.at = now.Add(w.backoff/2 + upTo(w.backoff/2))
	case left == 0 || holder == "" && t.Count(quorum.Paused, quorum.New, quorum.Kept) == 0: // a split vote
		w.backoff = min(max(2*w.backoff, t.RTT, slot/4), w.e.cfg.Lease/8)
		w.at = now.Add(w.backoff + upTo(3*w.backoff))
	default:
		w.backoff = 0
		w.at = now.Add(min(left, w.e.cfg.Lease) + w.share())
	}
	w.row()
}

// share spreads the claims at a lease's end, by how many listen.
func (w *waiter) share() time.Duration {
	if w.first {
		return afterLease
	}
	if w.stopWake != nil || w.crowd <= quorum.FrontRow {
		if w.e.quorum.Size() == 1 && w.waiters <= 3 {
			return slot // a few at once do no harm where votes can't split
		}
		return slot + upTo(slot*time.Duration(max(0, w.waiters-1))/2)
	}
	return slot + rowAhead + upTo(time.Duration(w.crowd)*perFollower)
}

func (w *waiter) crowds(t quorum.Tally) {
	waiters, crowd := -1, -1
	for _, a := range t.Answers {
		waiters, crowd = max(waiters, a.Waiters), max(crowd, a.Crowd)
	}
	if waiters >= 0 {
		w.waiters, w.crowd = waiters, crowd
	}
}

// row joins the front row while it has room, and leaves it when too many did
// so at once.
func (w *waiter) row() {
	switch {
	case w.stopWake == nil && w.waiters < quorum.FrontRow:
		w.stopWake = w.e.quorum.bus.Subscribe(w.e.keys.Wake, w.receive)
	case w.stopWake != nil && w.waiters > quorum.FrontRow &&
		upTo(time.Duration(w.waiters)) >= quorum.FrontRow:
		w.leaveRow()
	}
}

// wait blocks until it is time to claim, health changes, or ctx ends.
func (w *waiter) wait(ctx context.Context) {
	var sick <-chan struct{}
	if w.e.candidate != nil {
		sick = w.e.candidate.Changed()
	}
	at := w.at
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sick:
			return
		case <-timer.C:
			return
		case <-w.e.nudged: // the pause may be over
			at = earlier(at, time.Now().Add(upTo(time.Duration(w.crowd)*perFollower)))
			timer.Reset(time.Until(at))
		case <-w.poke:
			next := w.next()
			if !next.After(time.Now()) {
				return
			}
			if !next.Equal(at) {
				at = next
				timer.Reset(time.Until(at))
			}
		}
	}
}

// postpone lets a leader be that was announced: a crowd that waits for the end of the
// same lease must not come when the first of the front row has won. The front row asks
// as planned, so an announcement that is forged delays no election; the others ask
// once within the new lease.
func (w *waiter) postpone(now time.Time) {
	if n := &w.notices; n.elected > w.token && w.stopWake == nil && !n.postponed {
		n.postponed = true // once per claim
		w.at = now.Add(w.e.cfg.Lease/2 + upTo(w.e.cfg.Lease/4))
	}
}

// next is when to claim after what was received: never later than planned, but for
// what postpone does.
func (w *waiter) next() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, now := &w.notices, time.Now()
	majority := w.e.quorum.nodes.Majority()
	inRow := w.stopWake != nil && len(n.wake) >= majority
	reports := n.events
	if inRow {
		reports = n.wake
	}
	w.woken = false
	switch {
	case len(reports) < majority:
		w.postpone(now)
		if n.resubscribed && w.held != "" {
			// What was published before the subscription stood was missed: ask once.
			n.resubscribed = false
			w.at = earlier(w.at, now.Add(upTo(w.e.timing.RetryEvery())))
		}
		return w.at
	case n.replaced(reports, majority):
		// The front row asks all the same, when a true winner has settled: else one
		// forged message would cost a lease without a leader. All others leave it to them.
		if !inRow && !w.isHeir(reports, majority) {
			w.postpone(now)
			return w.at
		}
		n.claimAt = time.Time{}
		if n.confirmAt.IsZero() {
			n.confirmAt = now.Add(w.confirmIn())
		}
		w.woken = true
		return earlier(w.at, later(w.muted, n.confirmAt))
	}
	// More messages can't put it off.
	if at := now.Add(w.turn(inRow, reports, majority)); n.claimAt.IsZero() || at.Before(n.claimAt) {
		n.claimAt = at
	}
	at := n.claimAt
	if !n.confirmAt.IsZero() {
		at = earlier(at, n.confirmAt)
	}
	w.woken = true
	return earlier(w.at, later(w.muted, at))
}

// confirmIn is when the front row asks whether a leader that was announced is there:
// after all turns, each at its own time.
func (w *waiter) confirmIn() time.Duration {
	row := 2 * w.unit() * time.Duration(max(1, w.waiters))
	return row + upTo(row)
}

// unit is the time between two claims of the front row.
func (w *waiter) unit() time.Duration { return max(slot, 2*w.rtt) }

// turn is how long after a release to claim. In the front row whom a majority
// of the nodes named goes at once, the others in random slots behind.
func (w *waiter) turn(inRow bool, reports map[int]release, majority int) time.Duration {
	switch {
	case w.isHeir(reports, majority):
		return 0
	case !inRow:
		// Not in the front row; or in it, and a part of what was published there came
		// before the claim that is just over.
		return rowAhead + upTo(time.Duration(max(1, w.crowd))*perFollower)
	}
	unit, row := w.unit(), max(1, w.waiters)
	for name, count := range names(reports) {
		switch {
		case count < majority:
		case name == w.e.incarnation:
			return 0
		case quorum.IsReservation(name):
			return w.e.keepFor() + upTo(unit*time.Duration(row))
		default:
			return unit + upTo(unit*time.Duration(row))
		}
	}
	if w.e.quorum.Size() == 1 { // two at once do no harm where votes can't split
		return unit * time.Duration(rand.N(row+1)/2)
	}
	return unit * time.Duration(rand.N(row))
}

// isHeir tells whether a majority of the nodes keeps the seat for this candidate.
func (w *waiter) isHeir(reports map[int]release, majority int) bool {
	return names(reports)[quorum.Reservation(w.e.incarnation)] >= majority
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
