package standby

import (
	"math/rand/v2"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Timing of followers. A timer of an idle Go process is no finer than about 1 ms.
const (
	// FrontRowLead is the time between notifying the front row of a release and all others.
	FrontRowLead = 2 * time.Millisecond

	claimSpacing = time.Millisecond // between two claims of the front row, at least
	// A key lives until the millisecond after its time to live. The first to claim comes a
	// little early: at the worst it is refused once more.
	afterLease    = 200 * time.Microsecond
	frontRowAhead = 5 * time.Millisecond   // what the others leave to the front row, at least
	perFollower   = 100 * time.Microsecond // by which the others spread
	// A message takes longer to reach the last of a thousand than the front row takes to claim: that a new leader leads
	// must have reached them before they claim.
	perSubscriber = 20 * time.Microsecond
)

// Settings are what the decision depends on beside answers and messages.
type Settings struct {
	Incarnation string
	Nodes       int
	Lease       time.Duration
	RetryEvery  time.Duration // between two requests that messages can cause, at least
	ReservedFor time.Duration // how long the others wait for an heir
}

func (s Settings) majority() int { return s.Nodes/2 + 1 }

// decision is when to claim. It is pure: the nodes' answers, messages and the time come
// as arguments; chance alone is its own.
type decision struct {
	Settings

	notices     notices
	inRow       bool // in the front row
	outdated    bool // a newer version has led: no place in it
	backoff     time.Duration
	at          time.Time // when to claim, if no message comes
	here        neighbours
	waiters     int // in the front row, as the nodes reported last
	listening   int // in all, the same
	rtt         time.Duration
	holder      string    // the attempt that held a majority at the last claim
	first       bool      // a majority of the nodes names us as the first to try after it
	token       uint64    // its term's token
	ignoreUntil time.Time // no message makes us claim before this: the last one was false
	woken       bool      // the next claim is made because of a message
}

// neighbours are the followers of the election that share this process's subscription. A
// node counts them as one: each of a thousand would take the front row for empty, and they
// would all claim at once.
type neighbours struct {
	waiters   int // in the front row
	listening int // in all
}

// and adds those that a node counts to those here.
func (n neighbours) and(waiters, listening int) (int, int) {
	return waiters + max(0, n.waiters-1), listening + max(0, n.listening-1)
}

// lost plans when to claim again from what the last claim has shown.
func (d *decision) lost(t quorum.Tally, now time.Time) {
	d.rtt = t.RTT
	in, _ := protocol.HolderOf(t.Holders(), d.majority())
	holder := in.Attempt
	_, d.outdated = t.Outdated()
	if d.woken && holder != "" && holder == d.holder {
		d.ignoreUntil = now.Add(d.RetryEvery) // a false alarm: its sender must not drive this candidate
	}
	d.holder, d.token, d.woken = holder, in.Token, false
	d.plan(t, now)
}

// held is lost where the claim has met the holder of before, and travelled with many others: how long that took says
// nothing of the nodes.
func (d *decision) held(t quorum.Tally, now time.Time) {
	d.rtt = min(d.rtt, t.RTT)
	d.plan(t, now)
}

// plan plans the next claim by whose leases the last one has met.
func (d *decision) plan(t quorum.Tally, now time.Time) {
	d.count(t)
	d.first = t.Named() >= d.majority()
	d.notices.forget(d.token)

	holder := d.holder
	left, ok := opensAt(t, d.majority())
	switch {
	case !ok: // too few answered: again soon, then less and less often
		d.backoff = min(max(2*d.backoff, d.Lease/64), d.Lease/4)
		d.at = now.Add(d.backoff/2 + upTo(d.backoff/2))
	case left == 0 || holder == "" && t.Count(protocol.Paused, protocol.Abstains, protocol.Reserved, protocol.NewerVersion) == 0: // a split vote
		d.backoff = min(max(2*d.backoff, t.RTT, claimSpacing/4), d.Lease/8)
		d.at = now.Add(d.backoff + upTo(3*d.backoff))
	default:
		d.backoff = 0
		d.at = now.Add(min(left, d.Lease) + d.spread())
	}
}

// spread spreads the claims at a lease's end, by how many listen.
func (d *decision) spread() time.Duration {
	if d.first {
		return afterLease
	}
	if d.inRow || d.listening <= protocol.FrontRow {
		if d.Nodes == 1 && d.waiters <= 3 {
			return claimSpacing // a few at once do no harm where votes can't split
		}
		return claimSpacing + upTo(claimSpacing*time.Duration(max(0, d.waiters-1))/2)
	}
	return claimSpacing + d.behindRow()
}

// behindRow is how long after the front row to claim.
func (d *decision) behindRow() time.Duration {
	all := max(1, d.listening)
	return max(frontRowAhead, time.Duration(all)*perSubscriber) + upTo(time.Duration(all)*perFollower)
}

func (d *decision) count(t quorum.Tally) {
	waiters, listening := -1, -1
	for _, a := range t.Answers {
		waiters, listening = max(waiters, a.Waiters), max(listening, a.Subscribers)
	}
	if waiters >= 0 {
		d.waiters, d.listening = d.here.and(waiters, listening)
	}
}

// spreadOfAll is when to claim after what all followers learn at once.
func (d *decision) spreadOfAll() time.Duration {
	return upTo(time.Duration(d.listening) * perFollower)
}

// refused puts off the claim of a candidate that could win and must not lead: the
// majority that grants it each time would else be claimed and given back without a
// pause. It comes again when the lock that is in its way would lapse, at the latest
// within a lease: that lock may be released where this candidate is not notified.
func (d *decision) refused(t quorum.Tally, now time.Time) {
	pause := d.Lease/2 + upTo(d.Lease/4)
	for _, a := range t.Answers {
		if a.Status == protocol.Held && a.Left >= 0 {
			pause = min(pause, a.Left+d.spread())
		}
	}
	d.backoff = 0
	if at := now.Add(pause); at.After(d.at) {
		d.at = at
	}
}

// postpone puts the planned claim off when a new leader was announced, for all but the
// front row: otherwise all that wait for the end of the same lease would claim just when
// one has won. The front row claims as planned, so that a forged announcement delays no
// election; the others claim once within the new lease.
func (d *decision) postpone(now time.Time) {
	if n := &d.notices; n.elected > d.token && !d.inRow && !n.postponed {
		n.postponed = true // once per claim
		d.at = now.Add(d.Lease/2 + upTo(d.Lease/4))
	}
}

// next is when to claim after what was received: never later than planned, but for
// what postpone does.
func (d *decision) next(now time.Time) time.Time {
	n, majority := &d.notices, d.majority()
	inRow := d.inRow && len(n.wake) >= majority
	reports := n.events
	if inRow {
		reports = n.wake
	}
	d.woken = false
	switch {
	case len(reports) < majority:
		d.postpone(now)
		if n.resubscribed && d.holder != "" {
			// What was published before the subscription stood was missed: ask once.
			n.resubscribed = false
			d.at = earlier(d.at, now.Add(upTo(d.RetryEvery)))
		}
		return d.at
	case n.replaced(reports, majority):
		// The front row asks all the same, when a true winner has settled: else one
		// forged message would cost a lease without a leader. All others leave it to them.
		n.claimAt = time.Time{} // that release is over: at the next one all who remembered it would claim at once
		if !inRow && !d.isHeir(reports, majority) {
			d.postpone(now)
			return d.at
		}
		if n.confirmAt.IsZero() {
			n.confirmAt = now.Add(d.confirmIn())
		}
		d.woken = true
		return earlier(d.at, later(d.ignoreUntil, n.confirmAt))
	}
	// More messages can't put it off.
	if at := now.Add(d.delay(inRow, reports, majority)); n.claimAt.IsZero() || at.Before(n.claimAt) {
		n.claimAt = at
	}
	at := n.claimAt
	if !n.confirmAt.IsZero() {
		at = earlier(at, n.confirmAt)
	}
	d.woken = true
	return earlier(d.at, later(d.ignoreUntil, at))
}

// confirmIn is when the front row asks whether a leader that was announced is there:
// after all turns, each at its own time.
func (d *decision) confirmIn() time.Duration {
	row := 2 * d.unit() * time.Duration(max(1, d.waiters))
	return row + upTo(row)
}

// unit is the time between two claims of the front row. Where votes can't split, claims that overtake each other do no
// harm: there it does not depend on a round trip that was slow once, a lease ago.
func (d *decision) unit() time.Duration {
	if d.Nodes == 1 {
		return claimSpacing
	}
	return max(claimSpacing, 2*d.rtt)
}

// delay is how long after a release to claim. In the front row whom a majority
// of the nodes named goes at once, the others in random slots behind.
func (d *decision) delay(inRow bool, reports map[int]protocol.WakeMessage, majority int) time.Duration {
	switch {
	case d.isHeir(reports, majority):
		return 0
	case !inRow:
		// Not in the front row; or in it, and a part of what was published there came
		// before the claim that is just over.
		return d.behindRow()
	}
	unit, row := d.unit(), max(1, d.waiters)
	for name, count := range names(reports) {
		switch {
		case count < majority:
		case name == d.Incarnation:
			return 0
		case protocol.IsReservation(name):
			return d.ReservedFor + upTo(unit*time.Duration(row))
		default:
			return unit + upTo(unit*time.Duration(row))
		}
	}
	if d.Nodes == 1 { // two at once, too
		return unit * time.Duration(rand.N(row+1)/2)
	}
	return unit * time.Duration(rand.N(row))
}

// isHeir reports whether a majority of the nodes keeps a reservation for this candidate.
func (d *decision) isHeir(reports map[int]protocol.WakeMessage, majority int) bool {
	return names(reports)[protocol.Reservation(d.Incarnation)] >= majority
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

// upTo is a random duration below d.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
