package standby

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Timing of followers. A timer of an idle Go process is no finer than about 1 ms.
const (
	// few is how many followers claim at the end of a term, besides the one that the nodes name: about so
	// many, if there are more, chosen by lot for each term. A herd of all would delay the winner, and the
	// other followers learn of the next leader within a lease.
	few          = 8
	perFollower  = 200 * time.Microsecond // how far apart the claims of many followers are, on average
	claimSpacing = time.Millisecond       // how far apart those of few followers are, at least
	// A Redis key exists until the millisecond after its TTL, so the first candidate claims a
	// little early: at worst its claim is refused once more.
	afterLease = 200 * time.Microsecond
)

// Settings are the constants of the decision.
type Settings struct {
	Incarnation string
	Majority    int
	Lease       time.Duration
	RetryEvery  time.Duration // between two claims that messages can cause, at least
	ReservedFor time.Duration // how long the other candidates wait for an heir
	CallTimeout time.Duration // of a request
}

// decision computes when to claim. It is pure, apart from random delays: the nodes' answers, messages
// and the time come as arguments.
type decision struct {
	Settings

	at          time.Time // when to claim, if no message comes
	backoff     time.Duration
	seed        maphash.Seed
	followers   int           // about how many there are
	rtt         time.Duration // round trip of the last claim
	holder      string        // the attempt that held a majority at the last claim
	token       uint64        // of that holder's term
	first       bool          // a majority of the nodes names this candidate as the first to claim after that holder
	ignoreUntil time.Time     // no message causes a claim before this time, because the last one was false
	woken       bool          // a message causes the next claim

	// ended is the newest report of the end of a term, by node, since the last claim. Any message may be
	// forged, so none hides another. Who was elected since is no message's business: the claim shows it.
	ended   map[int]protocol.Message
	claimAt time.Time // when to claim because a term has ended; zero: none has
}

// lost plans when to claim again from the answers to the last claim. followers is about how many
// there are.
func (d *decision) lost(t quorum.Tally, followers int, now time.Time) {
	d.followers = followers
	if d.rtt = min(t.RTT, 2*d.rtt); d.rtt == 0 {
		d.rtt = t.RTT
	}
	in, _ := protocol.HolderOf(t.Locks(), d.Majority)
	if d.woken && in.Attempt != "" && in.Attempt == d.holder {
		d.ignoreUntil = now.Add(d.RetryEvery) // a false alarm: its sender must not make this candidate claim all the time
	}
	d.holder, d.token, d.woken = in.Attempt, in.Token, false
	d.first = t.NamesUsNext() >= d.Majority
	left, ok := opensAt(t, d.Majority)
	switch {
	case !ok: // too few nodes answered: try again soon, then less and less often
		d.backoff = min(max(2*d.backoff, d.Lease/64), d.Lease/4)
		d.at = now.Add(d.backoff/2 + upTo(d.backoff/2))
	case t.Count(protocol.Free) >= d.Majority: // it only asked: the leader's next renewal comes first
		d.backoff = 0
		d.at = now.Add(d.Lease/4 + d.CallTimeout/4 + upTo(d.RetryEvery))
	case left == 0 || d.holder == "" && t.Count(protocol.Paused, protocol.Abstains, protocol.Reserved) == 0: // a split vote
		d.backoff = min(max(2*d.backoff, t.RTT, claimSpacing/4), d.Lease/8)
		d.at = now.Add(d.backoff + upTo(3*d.backoff))
	default:
		d.backoff = 0
		d.at = now.Add(min(left, d.Lease) + d.behindLease())
	}
}

// behindLease returns how long after the end of a lease to claim. Of many followers those that do not act
// at the end of this term come later: a leader has been elected by then, unless all that act can't lead.
func (d *decision) behindLease() time.Duration {
	switch {
	case d.first:
		return afterLease
	case acts(d.seed, d.token, d.followers):
		return claimSpacing + d.behindFirst(d.token)
	default:
		return d.RetryEvery + upTo(d.RetryEvery)
	}
}

// behindFirst returns how long to claim after the candidate that is named as the first at the end of a
// term. That one gets two round trips: the time to win a majority, in which no other claim splits the
// votes or delays it.
func (d *decision) behindFirst(token uint64) time.Duration {
	all := max(d.unit()*time.Duration(min(d.followers, few)), d.spread())
	return d.unit() + time.Duration(lot(d.seed, token)*float64(all))
}

// spread returns the time over which all followers spread their claims.
func (d *decision) spread() time.Duration { return time.Duration(d.followers) * perFollower }

// lot returns this follower's place among all at the end of a term: random from 0 to 1, and the same
// each time.
func lot(seed maphash.Seed, token uint64) float64 {
	return float64(maphash.Comparable(seed, token)>>11) / (1 << 53)
}

// unit returns the time between two claims that lets the first of them win.
func (d *decision) unit() time.Duration { return max(claimSpacing, 2*d.rtt) }

// refused postpones the claim of a candidate that could win but must not lead: otherwise it
// would claim and release the majority that grants it again and again, without a pause. The
// candidate claims again when the lock in its way would lapse, and within a lease at the
// latest: that lock may be released by a process whose messages do not reach this candidate.
func (d *decision) refused(t quorum.Tally, now time.Time) {
	pause := d.Lease/2 + upTo(d.Lease/4)
	for _, a := range t.Answers {
		if a.Status == protocol.Held && a.Left >= 0 {
			pause = min(pause, a.Left+d.behindLease())
		}
	}
	d.backoff = 0
	d.at = later(d.at, now.Add(pause))
}

// termEnded takes a node's report of the end of a term into account, unless it is older than the term that the last
// claim saw.
func (d *decision) termEnded(node int, m protocol.Message) (taken bool) {
	if m.Token < d.token {
		return false
	}
	if d.ended == nil {
		d.ended = map[int]protocol.Message{}
	}
	d.ended[node] = m
	return true
}

// claimWithin plans a claim at a random moment within that time, unless one is planned before it.
func (d *decision) claimWithin(span time.Duration) { d.at = earlier(d.at, time.Now().Add(upTo(span))) }

// next returns when to claim, given the messages received: never later than planned.
func (d *decision) next(now time.Time) time.Time {
	if d.woken = len(d.ended) >= d.Majority; !d.woken {
		return d.at
	}
	// A further message can bring the claim forward, but can't postpone it.
	if at := now.Add(d.behindEnd()); d.claimAt.IsZero() || at.Before(d.claimAt) {
		d.claimAt = at
	}
	return earlier(d.at, later(d.ignoreUntil, d.claimAt))
}

// behindEnd returns how long after the end of a term to claim.
func (d *decision) behindEnd() time.Duration {
	name, token := d.named()
	switch {
	case name == d.Incarnation, name == protocol.Reservation(d.Incarnation):
		return 0
	case protocol.IsReservation(name):
		return d.ReservedFor + d.behindFirst(token)
	default:
		return d.behindFirst(token)
	}
}

// named returns what a majority of the nodes reports of who claims first after the end of a term: an
// incarnation, or a reservation; empty: they name none, or differ. token is the highest that they report.
func (d *decision) named() (name string, token uint64) {
	count := map[string]int{}
	for _, m := range d.ended {
		token = max(token, m.Token)
		if count[m.First]++; count[m.First] >= d.Majority {
			name = m.First
		}
	}
	return name, token
}

// acts reports whether a follower is among those that claim at the end of a term.
func acts(seed maphash.Seed, token uint64, followers int) bool {
	return lot(seed, token)*float64(followers) < few
}

// noExpiry stands for the time left of a lock or mark that does not expire.
const noExpiry = 1000 * time.Hour

// opensAt returns how long after the tally a majority of the nodes could grant a claim, if
// nothing is renewed or released: the quorum-th smallest of the remaining times. ok is false
// when too few nodes answered.
func opensAt(t quorum.Tally, majority int) (left time.Duration, ok bool) {
	var all []time.Duration
	for _, a := range t.Answers {
		switch a.Status {
		case protocol.Unknown, protocol.SameServer:
		case protocol.Held, protocol.Paused, protocol.Abstains, protocol.Reserved:
			if a.Left < 0 { // it does not expire
				a.Left = noExpiry
			}
			all = append(all, a.Left)
		default: // the node would have granted the claim
			all = append(all, 0)
		}
	}
	if len(all) < majority {
		return 0, false
	}
	slices.Sort(all)
	return all[majority-1], true
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
