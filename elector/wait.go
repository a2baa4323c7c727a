package elector

import (
	"context"
	"math/rand/v2"
	"strings"
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

	mu      sync.Mutex // what was heard since the last claim
	heard   heard
	backoff time.Duration
	at      time.Time // when to claim, if nothing is heard
	waiters int       // in the front row, as last told
	crowd   int       // listening in all, as last told
	rtt     time.Duration
	held    string    // the holder of the last claim
	first   bool      // a majority of the nodes names us as the first to try after it
	token   uint64    // its term's token
	highest uint64    // counter or token that Redis told
	muted   time.Time // no message makes us claim before this: the last one was false
	woken   bool      // the last claim was made because of a message
}

func (e *Elector) newWaiter() *waiter {
	w := &waiter{e: e, poke: make(chan struct{}, 1)}
	w.stopEvents = e.quorum.nodes.Watch(e.keys.Events, w.hear)
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

// claiming forgets what was heard: the claim asks Redis itself.
func (w *waiter) claiming() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = heard{}
}

// plan computes when to claim again from what the last claim told.
func (w *waiter) plan(t quorum.Tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	majority := w.e.quorum.nodes.Majority()
	w.rtt, w.highest = t.RTT, w.e.known.highest
	w.crowds(t)
	in, _ := quorum.IncumbentOf(t.Holders(), majority)
	holder := in.Attempt
	w.first = t.Named() >= majority
	if w.woken && holder != "" && holder == w.held {
		w.muted = now.Add(w.e.timing.RetryEvery()) // a false alarm: don't be driven by whoever sends them
	}
	w.held, w.token, w.woken = holder, in.Token, false

	if w.heard.token < w.token { // heard while the claim was under way, and older than its answer
		w.heard = heard{leads: w.heard.leads, again: w.heard.again}
	}

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
		w.stopWake = w.e.quorum.nodes.Watch(w.e.keys.Wake, w.hear)
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

// next is when to claim after what was heard: never later than planned, but for
// an election.
func (w *waiter) next() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, now := &w.heard, time.Now()
	majority := w.e.quorum.nodes.Majority()
	switch {
	case h.leads > h.token:
		return w.afterElection(now)
	case len(h.front) >= majority && w.stopWake != nil:
		w.woken = true
		return earlier(w.at, later(w.muted, now.Add(w.turn(majority))))
	case len(h.all) >= majority:
		// Not in the front row; or in it, and a part of what it was told came before
		// the claim that is just over.
		w.woken = true
		spread := rowAhead + upTo(time.Duration(max(1, w.crowd))*perFollower)
		if w.isHeir(majority) {
			spread = 0
		}
		return earlier(w.at, later(w.muted, now.Add(spread)))
	case h.again && w.held != "":
		// What was published before the subscription stood was missed: ask once.
		h.again = false
		w.at = earlier(w.at, now.Add(upTo(w.e.timing.RetryEvery())))
		return w.at
	default:
		return w.at
	}
}

// afterElection lets a new leader be: the front row still asks at the end of
// the old lease, the others once within the new one. So a forged message delays
// most, but not all.
func (w *waiter) afterElection(now time.Time) time.Time {
	w.woken = false
	if w.stopWake == nil && !w.heard.postponed {
		w.heard.postponed = true // once per claim
		w.at = now.Add(w.e.cfg.Lease/2 + upTo(w.e.cfg.Lease/4))
	}
	return w.at
}

// turn is when a member of the front row goes after a release: whom a majority
// of the nodes named goes at once, the others in random slots behind.
func (w *waiter) turn(majority int) time.Duration {
	unit := max(slot, 2*w.rtt)
	if w.heard.named[w.e.incarnation] >= majority || w.isHeir(majority) {
		return 0
	}
	row := max(1, w.waiters)
	for name, n := range w.heard.named {
		switch {
		case n < majority:
		case strings.HasPrefix(name, heirMark):
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

// heirMark stands before a name for which the nodes keep the others waiting.
const heirMark = "!"

// isHeir tells whether a majority of the nodes keeps the seat for this candidate.
func (w *waiter) isHeir(majority int) bool {
	return w.heard.named[heirMark+w.e.incarnation] >= majority
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
