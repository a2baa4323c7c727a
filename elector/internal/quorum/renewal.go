package quorum

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// maxUnderWay is how many renewals of an election may be under way to a node, if that hangs. There is
// room for the outcomes of as many.
const maxUnderWay = 8

// termRenewal is the renewal of a term that was sent last, and what all renewals of the term share.
type termRenewal struct {
	*round

	answers  chan *nodes.Request         // the outcomes, also of earlier renewals
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
	r.Until = n.until
	v.nodes.All()[node].Send(r)
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
		if a.Status == protocol.Unknown && n.pending[node] < nodes.MaxCalls && // more would only wait for these
			v.nodes.All()[node].Lost(n.left[node].Load(), limit/2) && v.nodes.Overload() == 0 {
			v.renewOn(node, wanted)
		}
	}
	return true
}

// Answers gets the outcomes of renewals. Each must be passed to Count.
func (v *Voter) Answers() <-chan *nodes.Request { return v.renewal.answers }

// Count takes an outcome. It reports whether that has ended the newest renewal, and its tally.
func (v *Voter) Count(a *nodes.Request) (t Tally, over bool) {
	n := &v.renewal
	n.underWay[a.Node]--
	if a.Seq != v.seq { // of an earlier term
		v.noteLate(a)
		return Tally{}, false
	}
	v.note(a)
	if r := v.state[a.Node].rival; r != nil {
		r.Late = a.Answer.Status == protocol.Held // only claims are answered so
	}
	if c := &v.claimed.Answers[a.Node]; c.ID == "" && a.Script.Script == protocol.ClaimScript.Script && a.Answer.Status != protocol.SameServer {
		c.ID = a.Answer.ID // that came late: a server of its own, which twin must know
	}
	if a.Of != n.round || n.ended {
		return Tally{}, false
	}
	if v.twin(a) {
		a.Answer.Status = protocol.SameServer
	}
	n.record(a.Node, a.Answer)
	if !n.over() {
		return Tally{}, false
	}
	if limit := v.cfg.CallTimeout; !v.nodes.All()[a.Node].Lost(nil, limit/2) { // else it has waited for the node
		v.nodes.Renewed(time.Since(a.Asked)-a.Took, limit)
	}
	return v.EndRenewal(), true
}

// twin reports whether another node of the round has shown the identity of this answer, and one of them had another one
// when the term was won: an address has come to lead to the server of another, which must not vote twice. (Copies of one
// data set, which share an identity from the start, are servers of their own: one server refuses a claim's second vote.)
func (v *Voter) twin(a *nodes.Request) bool {
	for i, other := range v.renewal.Answers {
		if i != a.Node && other.ID != "" && other.ID == a.Answer.ID && (v.claimed.Answers[i].ID != other.ID || v.claimed.Answers[a.Node].ID != other.ID) {
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
