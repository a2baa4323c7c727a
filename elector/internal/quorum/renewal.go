package quorum

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// maxUnderWay is how many renewals of an election may be under way to a node, if that hangs. There is
// room for the outcomes of as many.
const maxUnderWay = 8

// termRenewal is the renewal of a term that was sent last, and what all renewals of the term share.
type termRenewal struct {
	*round

	answers  chan *request               // the outcomes, also of earlier renewals
	underWay []int                       // by node: requests whose outcome was not taken from answers
	left     []atomic.Pointer[time.Time] // by node: when the newest request of the round left; nil: it waits
	number   uint64
	wanted   func() bool
	until    time.Time // the term's deadline

	what  protocol.Request   // except what differs by node
	value protocol.LockValue // what its lock value was made of
}

// Renew sends a renewal of the term that the last Claim won to all nodes. It does not block: Answers
// gets the outcomes. No request leaves after until, the term's deadline. wanted is called when a request leaves, on another goroutine: a request that
// had to wait behind others to a hung node must not be sent on an earlier verdict of the probes, or
// for a term that has ended since. One for which there is a newer renewal is not sent either.
func (v *Voter) Renew(until time.Time, token uint64, heir protocol.Heir, wanted func() bool) {
	n := &v.renewal
	n.round = newRound(v.nodes, protocol.Renewed, false)
	attempt, r := v.seq, v.newest.Add(1)
	n.number, n.until, n.wanted = r, until, func() bool { return v.alive.Load() == attempt && v.newest.Load() == r && wanted() }
	v.lock.Identities = v.Identities()
	if n.value != v.lock {
		n.value, n.what.Value = v.lock, v.lock.String()
	}
	n.what.Token, n.what.Successor, n.what.Keep = token, heir.Incarnation, heir.Keep.Milliseconds()
	for node := range v.state {
		n.left[node].Store(nil)
		v.renewOn(node, n.wanted)
	}
	v.Keep()
}

// renewOn sends the renewal to a node, unless too many are under way to it already.
func (v *Voter) renewOn(node int, wanted func() bool) {
	n, s := &v.renewal, &v.state[node]
	if n.underWay[node] >= maxUnderWay {
		return
	}
	n.underWay[node]++
	if s.newIdentity == "" {
		s.newIdentity = protocol.NewIdentity()
	}
	what := n.what
	what.Shown, what.Identity = s.counter, s.newIdentity
	leaves := func() bool {
		leaves := wanted()
		if leaves {
			n.left[node].Store(new(time.Now()))
		}
		return leaves
	}
	r := v.ask(n.round, node, protocol.RenewScript, what, leaves, n.answers)
	r.until = n.until
	v.nodes.list[node].send(r)
}

// RenewAgain sends the renewal once more to the nodes that have not answered it, nor anything else for half of the
// time-out, or answer a later request: their connections may be dead, or were lost. One that answers others, or a process
// whose renewals wait in their queue, is only busy, and would be more so. A node that gets both does the same twice. It
// reports false, and does nothing, if a majority has answered.
func (v *Voter) RenewAgain() bool {
	n := &v.renewal
	if n.Answered() {
		return false
	}
	number, first := n.number, n.wanted
	wanted := func() bool { return v.over.Load() < number && first() }
	limit := v.cfg.CallTimeout
	for node, a := range n.Answers {
		if a.Status == protocol.Unknown && n.sent[node] < maxCalls && // more would only wait for these
			v.nodes.list[node].lost(n.left[node].Load(), limit/2) && v.nodes.Overload() == 0 {
			v.renewOn(node, wanted)
		}
	}
	return true
}

// answered is when a request was sent, and answered.
type answered struct{ sent, at time.Time }

// lost reports whether a request that left at that time, or waits (nil), may be lost with its connection: the node has
// answered none for so long, or one that was sent later.
func (n *Node) lost(left *time.Time, silent time.Duration) bool {
	a := n.answered.Load()
	return a == nil || time.Since(a.at) >= silent || left != nil && a.sent.After(*left)
}

// Answers gets the outcomes of renewals. Each must be passed to Count.
func (v *Voter) Answers() <-chan *request { return v.renewal.answers } //nolint:revive // opaque: only Count looks into it

// Count takes an outcome. It reports whether that has ended the newest renewal, and its tally.
func (v *Voter) Count(a *request) (t Tally, over bool) {
	n := &v.renewal
	n.underWay[a.node]--
	if a.Seq != v.seq { // of an earlier term
		v.noteLate(a)
		return Tally{}, false
	}
	v.note(a)
	if r := v.state[a.node].rival; r != nil {
		r.Late = a.answer.Status == protocol.Held // only claims are answered so
	}
	if c := &v.claimed.Answers[a.node]; c.ID == "" && a.script.Script == protocol.ClaimScript.Script && a.answer.Status != protocol.SameServer {
		c.ID = a.answer.ID // that came late: a server of its own, which twin must know
	}
	if a.round != n.round || n.ended {
		return Tally{}, false
	}
	if v.twin(a) {
		a.answer.Status = protocol.SameServer
	}
	n.record(a.node, a.answer)
	if !n.over() {
		return Tally{}, false
	}
	if limit := v.cfg.CallTimeout; !v.nodes.list[a.node].lost(nil, limit/2) { // else it has waited for the node
		v.nodes.Renewed(time.Since(a.asked)-a.took, limit)
	}
	return v.EndRenewal(), true
}

// twin reports whether another node of the round has shown the identity of this answer, and one of them had another one
// when the term was won: an address has come to lead to the server of another, which must not vote twice. (Copies of one
// data set, which share an identity from the start, are servers of their own: one server refuses a claim's second vote.)
func (v *Voter) twin(a *request) bool {
	for i, other := range v.renewal.Answers {
		if i != a.node && other.ID != "" && other.ID == a.answer.ID && (v.claimed.Answers[i].ID != other.ID || v.claimed.Answers[a.node].ID != other.ID) {
			return true
		}
	}
	return false
}

// Renewal returns the answers to the newest renewal so far.
func (v *Voter) Renewal() Tally {
	t := v.renewal.Tally
	t.Answers = slices.Clone(t.Answers)
	return t
}

// EndRenewal ends the newest renewal, and returns its tally: answers that come later don't count.
func (v *Voter) EndRenewal() Tally {
	v.renewal.end()
	v.over.Store(v.renewal.number)
	return v.renewal.Tally
}
