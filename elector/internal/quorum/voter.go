// Package quorum turns the nodes into one voting store: claim, renew, release and announce. A single Redis is a quorum of
// one, not a second implementation: its vote is the decision. Claims on several nodes are decided by redsync, which no
// other package imports.
//
// A request passes these, from top to bottom:
//
//	Voter, Release     the rounds of one election, and their arguments (claim.go, renewal.go, release.go)
//	round              counts the answers of the nodes; ends with a majority and a short wait for the others
//	nodes.Node.Send    all elections of the process, for one node: requests that meet share a call
package quorum

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// VoterConfig configures a Voter.
type VoterConfig struct {
	Keys        protocol.Keys
	Candidate   string
	Incarnation string
	Advertise   string
	Lease       time.Duration
	CallTimeout time.Duration // bounds one request to one node
	// RequestEnded, if set, is called with the outcome of each request to a node, including those
	// that a round did not wait for. It is called on several goroutines.
	RequestEnded func(node int, took time.Duration, err error)
	// Unrecorded, if set, is called with the reason when a node's history did not take an
	// event. It is called on several goroutines.
	Unrecorded func(error)
}

// Voter claims, renews, releases and announces for one elector. It belongs to the state machine's
// goroutine. Only Go, WaitIdle, Announce and Identities are safe for concurrent use.
type Voter struct {
	nodes *nodes.Nodes
	cfg   VoterConfig
	state []nodeState // by node

	seq     uint64
	alive   atomic.Uint64      // the attempt that runs or serves its term; 0: none
	newest  atomic.Uint64      // numbers the renewals
	over    atomic.Uint64      // the newest renewal that is over
	lock    protocol.LockValue // of the newest attempt; includes its token once that is agreed on
	claimed Tally              // how the nodes answered its claim
	renewal termRenewal        // the newest one
	kept    time.Time          // when Keep last announced
	met     time.Time          // when Meet last queried the nodes for their identities
	ids     atomic.Pointer[protocol.Identities]

	servers []servers // by node

	onlyHeld bool // its releases change nothing on a node that does not hold the lock; never changes

	events     uint64                // numbers the events of this voter
	missed     atomic.Pointer[event] // the newest event that no majority of the nodes has answered; nil: there is none
	background nodes.Flights
}

// NewVoter returns a Voter for these nodes. It does no I/O.
func NewVoter(ns *nodes.Nodes, cfg VoterConfig) *Voter {
	n := ns.Len()
	v := &Voter{nodes: ns, cfg: cfg, state: make([]nodeState, n), servers: make([]servers, n)}
	v.renewal = termRenewal{
		answers: make(chan *nodes.Request, maxUnderWay*n), underWay: make([]int, n), left: make([]atomic.Pointer[time.Time], n),
	}
	return v
}

// Go runs fn on a goroutine that WaitIdle waits for.
func (v *Voter) Go(fn func()) { v.background.Go(fn) }

// WaitIdle blocks until no announcement, no release and no late claim is under way, for at most d.
func (v *Voter) WaitIdle(d time.Duration) { v.background.Wait(d) }

// Identities returns the identities of the nodes that have answered the last request.
func (v *Voter) Identities() protocol.Identities {
	if ids := v.ids.Load(); ids != nil {
		return *ids
	}
	return ""
}

// identify records the identity of a node. A node that does not answer has none: one that was taken out of
// service must not count for ever.
func (v *Voter) identify(node int, id string) {
	if v.state[node].id == id {
		return
	}
	v.state[node].id = id
	all := make([]string, len(v.state))
	for i, n := range v.state {
		all[i] = n.id
	}
	v.ids.Store(new(protocol.IdentitiesOf(all)))
}

// Parted tells that a connection to a node was lost, or that nothing was lost with it.
func (v *Voter) Parted(node int, lost bool) { v.state[node].parted = lost }

// Attempt returns the number of the newest attempt.
func (v *Voter) Attempt() uint64 { return v.seq }

// Regainable reports whether a node has answered the last renewal, even after the round was
// over, that its lock is free and its counter higher than the term's. Such a node accepts the
// next renewal if no candidate claims it before that.
func (v *Voter) Regainable() bool {
	return slices.ContainsFunc(v.state, func(n nodeState) bool { return n.gone })
}

// request makes a request of an attempt to one node. The outcome comes on ended.
func (v *Voter) request(node int, s protocol.ElectionScript, what protocol.Request, wanted func() bool, ended chan<- *nodes.Request) *nodes.Request {
	what.Keys, what.Incarnation, what.Lease = &v.cfg.Keys, v.cfg.Incarnation, v.cfg.Lease.Milliseconds()
	return &nodes.Request{Request: what, Script: s, Limit: v.cfg.CallTimeout, Node: node, Asked: time.Now(), Wanted: wanted, Ended: ended}
}

// ask makes a request of a round of the newest attempt to one node.
func (v *Voter) ask(r *round, node int, s protocol.ElectionScript, what protocol.Request, wanted func() bool, ended chan<- *nodes.Request) *nodes.Request {
	r.pending[node]++
	what.Seq = v.seq
	q := v.request(node, s, what, wanted, ended)
	q.Of = r
	return q
}

// note records what the outcome of a request shows of its node. A node that leads to several servers has no vote.
func (v *Voter) note(r *nodes.Request) {
	if r.Sent.IsZero() {
		return
	}
	a, n := r.Answer, &v.state[r.Node]
	n.unresponsive = a.Status == protocol.Unknown
	switch {
	case a.Status == protocol.Held:
		n.bereft = time.Time{}
	case n.parted && !n.unresponsive && n.rival != nil && a.Fence <= n.rival.Holder.Token: // a release would have raised it
		n.bereft = time.Now()
	}
	n.parted = n.unresponsive && (n.parted || Lost(a.Err))
	if a.ID != "" || n.unresponsive {
		v.identify(r.Node, a.ID)
		v.noteIdentity(r.Node, a.ID, r.Sent, r.Sent.Add(r.Took))
	}
	if a.ID == "" || n.newIdentity == a.ID {
		n.newIdentity = "" // taken, perhaps: once the node forgets it, it must not get it again
	}
	if !n.unresponsive {
		n.counter = max(n.counter, a.Fence)
		n.rival, n.gone = n.rival.next(a, r.Sent), a.Status == protocol.NoLock
	}
	v.noteLate(r)
	if err := v.nodes.All()[r.Node].Suspected(v.cfg.Lease); err != nil {
		r.Answer = protocol.Answer{Status: protocol.Unknown, Err: err, Subscribers: -1}
	}
}

// noteLate counts a request, also one whose outcome the voter's goroutine did not wait for.
func (v *Voter) noteLate(r *nodes.Request) {
	if r.Sent.IsZero() {
		return
	}
	r.Answer.Err = rediserr.CandidateNeeds(r.Answer.Err, v.cfg.Keys.Prefix())
	if v.cfg.RequestEnded != nil {
		v.cfg.RequestEnded(r.Node, r.Took, v.nodes.NodeError(r.Node, r.Answer.Err))
	}
}

// late takes the outcomes that a round did not wait for, in the background.
func (v *Voter) late(r *round, ended <-chan *nodes.Request) {
	if n := r.outstanding(); n > 0 {
		v.Go(func() {
			for range n {
				v.noteLate(<-ended)
			}
		})
	}
}

// nodeState is what a voter knows of a node. It belongs to the voter's goroutine.
type nodeState struct {
	unresponsive bool      // the last request got no answer
	parted       bool      // a connection was lost, and no answer came since: the node may have lost what it held
	bereft       time.Time // when it answered again, without the lock of another that it had held; zero: it has that
	id           string    // its identity; empty: not known
	newIdentity  string    // an identity that the node may take; empty: the next request needs a new one

	rival *Rival // the other candidate that held the lock at the last answer; nil: none

	// Of the newest term.
	counter uint64 // the highest counter that the node has shown
	gone    bool   // at the last renewal the lock was free, and the counter higher than ours
}
