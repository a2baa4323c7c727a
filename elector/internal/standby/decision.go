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
	// A Redis key exists until the millisecond after its TTL, so the first candidate claims a
	// little early: at worst its claim is refused once more.
	afterLease    = 200 * time.Microsecond
	frontRowAhead = 5 * time.Millisecond   // head start of the front row over all other followers, at least
	perFollower   = 100 * time.Microsecond // the other followers' claims are spread over this time for each of them
	fillAfter     = 100 * time.Millisecond // so long after an election they claim at least: the handover is over then
	rowFillers    = 3                      // about how many followers claim after an election to fill the front row
	// A message takes longer to reach the last of a thousand subscribers than the front row takes
	// to claim: the news of a new leader must reach the other followers before they claim.
	perSubscriber = 20 * time.Microsecond
)

// Settings are the constants of the decision.
type Settings struct {
	Incarnation string
	Nodes       int
	Lease       time.Duration
	RetryEvery  time.Duration // between two claims that messages can cause, at least
	ReservedFor time.Duration // how long the other candidates wait for an heir
}

func (s Settings) majority() int { return s.Nodes/2 + 1 }

// decision computes when to claim. It is pure, apart from random jitter: the nodes' answers,
// messages and the time come as arguments.
type decision struct {
	Settings

	notices        notices
	inRow          bool // in the front row
	backoff        time.Duration
	at             time.Time // when to claim, if no message comes
	localFollowers neighbours
	waiters        int           // followers in the front row, as the nodes last reported
	listening      int           // all followers, likewise
	rtt            time.Duration // round trip of the last claim
	holder         string        // the attempt that held a majority at the last claim
	namedNext      bool          // a majority of the nodes names this candidate as the first to claim after that holder
	token          uint64        // of that holder's term
	ignoreUntil    time.Time     // no message causes a claim before this time, because the last one was false
	woken          bool          // a message causes the next claim
}

// neighbours are the followers of the election that share this process's subscription. A
// node counts them as one: without this correction a thousand of them would each find the
// front row empty, and would all claim at once.
type neighbours struct {
	waiters   int // in the front row
	listening int // in all
}

// and adds the followers that a node counts to those of this process.
func (n neighbours) and(waiters, listening int) (int, int) {
	return waiters + max(0, n.waiters-1), listening + max(0, n.listening-1)
}

// lost plans when to claim again from the answers to the last claim.
func (d *decision) lost(t quorum.Tally, now time.Time) {
	d.rtt = t.RTT
	in, _ := protocol.HolderOf(t.Holders(), d.majority())
	holder := in.Attempt
	if d.woken && holder != "" && holder == d.holder {
		d.ignoreUntil = now.Add(d.RetryEvery) // a false alarm: its sender must not make this candidate claim all the time
	}
	d.holder, d.token, d.woken = holder, in.Token, false
	d.count(t)
	d.namedNext = t.Named() >= d.majority()
	d.notices.forget(d.token)
	left, ok := opensAt(t, d.majority())
	switch {
	case !ok: // too few nodes answered: try again soon, then less and less often
		d.backoff = min(max(2*d.backoff, d.Lease/64), d.Lease/4)
		d.at = now.Add(d.backoff/2 + upTo(d.backoff/2))
	case left == 0 || holder == "" && t.Count(protocol.Paused, protocol.Abstains, protocol.Reserved) == 0: // a split vote
		d.backoff = min(max(2*d.backoff, t.RTT, claimSpacing/4), d.Lease/8)
		d.at = now.Add(d.backoff + upTo(3*d.backoff))
	default:
		d.backoff = 0
		d.at = now.Add(min(left, d.Lease) + d.spread())
	}
}

// spread returns how long after a lease's end to claim. It spreads the claims by the number of followers.
func (d *decision) spread() time.Duration {
	if d.namedNext {
		return afterLease
	}
	if d.inRow || d.listening <= protocol.FrontRow {
		if d.Nodes == 1 && d.waiters <= 3 {
			return claimSpacing // on one node votes can't split: a few claims at once do no harm
		}
		return claimSpacing + upTo(claimSpacing*time.Duration(max(0, d.waiters-1))/2)
	}
	return claimSpacing + d.behindRow()
}

// behindRow returns how long after the front row to claim.
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
		d.waiters, d.listening = d.localFollowers.and(waiters, listening)
	}
}

// spreadOfAll returns how long to wait before a claim whose cause all followers learn of at once.
func (d *decision) spreadOfAll() time.Duration {
	return upTo(time.Duration(d.listening) * perFollower)
}

// refused postpones the claim of a candidate that could win but must not lead: otherwise it
// would claim and release the majority that grants it again and again, without a pause. The
// candidate claims again when the lock in its way would lapse, and within a lease at the
// latest: that lock may be released by a process whose messages do not reach this candidate.
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

// postpone postpones the planned claim when a new leader was announced, unless this follower is
// in the front row: otherwise all followers that wait for the end of the same lease would claim
// just when one has won. The front row claims as planned, so that a forged announcement delays no
// election; the others claim once within the new lease.
func (d *decision) postpone(now time.Time) {
	if n := &d.notices; n.elected > d.token && !d.inRow && !n.postponed {
		n.postponed = true // once per claim
		d.at = now.Add(d.Lease/2 + upTo(d.Lease/4))
	}
}

// fillRow has about three of the followers behind the front row claim soon after each election. The
// new leader has left the front row, and a lost claim shows whether there is room in it. Without
// this, eight handovers within a lease empty the row, and the next release waits for the followers
// behind it. A forged announcement costs about three requests to each node.
func (d *decision) fillRow(now time.Time) {
	n := &d.notices
	if d.inRow || n.elected <= max(d.token, n.considered) {
		return
	}
	n.considered = n.elected
	if rand.N(max(1, d.listening)) < rowFillers {
		after := max(fillAfter, d.RetryEvery/4)
		d.at = earlier(d.at, later(d.ignoreUntil, now.Add(after+upTo(after))))
		n.filling, d.woken = true, true
	}
}

// next returns when to claim, given the messages received: never later than planned, unless
// postpone postpones the claim.
func (d *decision) next(now time.Time) time.Time {
	n, majority := &d.notices, d.majority()
	inRow := d.inRow && len(n.wake) >= majority
	reports := n.events
	if inRow {
		reports = n.wake
	}
	d.woken = n.filling
	switch {
	case len(reports) < majority:
		d.postpone(now)
		d.fillRow(now)
		if n.resubscribed && d.holder != "" {
			// Messages published before the node confirmed the subscription were missed: claim once.
			n.resubscribed = false
			d.at = earlier(d.at, now.Add(upTo(d.RetryEvery)))
		}
		return d.at
	case n.replaced(reports, majority):
		// The front row claims nevertheless, after a real winner has had the time to lead: otherwise
		// one forged message would cost a lease without a leader. All other followers leave this
		// claim to the front row.
		n.claimAt = time.Time{} // of a release that is over: at the next one all followers that kept it would claim at once
		if !inRow && !d.isHeir(reports, majority) {
			d.postpone(now)
			d.fillRow(now)
			return d.at
		}
		if n.confirmAt.IsZero() {
			n.confirmAt = now.Add(d.confirmIn())
		}
		d.woken = true
		return earlier(d.at, later(d.ignoreUntil, n.confirmAt))
	}
	// A further message can bring the claim forward, but can't postpone it.
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

// confirmIn returns after what time a follower in the front row claims to check whether an
// announced leader exists: after all claims of the front row, and at a random time of its own.
func (d *decision) confirmIn() time.Duration {
	row := 2 * d.unit() * time.Duration(max(1, d.waiters))
	return row + upTo(row)
}

// unit returns the time between two claims of the front row. On one node votes can't split, and
// claims that overtake each other do no harm: there unit does not depend on the last round trip,
// which may have been slow once, a lease ago.
func (d *decision) unit() time.Duration {
	if d.Nodes == 1 {
		return claimSpacing
	}
	return max(claimSpacing, 2*d.rtt)
}

// delay returns how long after a release to claim. In the front row, the candidate that a
// majority of the nodes named claims at once, and the others at random times after it.
func (d *decision) delay(inRow bool, reports map[int]protocol.WakeMessage, majority int) time.Duration {
	switch {
	case d.isHeir(reports, majority):
		return 0
	case !inRow:
		// Not in the front row; or in it, but some reports on the wake channel arrived before
		// the claim that has just ended, and were dropped.
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
	if d.Nodes == 1 { // two candidates may claim at once: votes can't split
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

// upTo returns a random duration below d; 0 if d is not positive.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
