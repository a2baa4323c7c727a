package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/lease"
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
	nodes *Nodes
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
	background flights
}

// NewVoter returns a Voter for these nodes. It does no I/O.
func NewVoter(ns *Nodes, cfg VoterConfig) *Voter {
	n := ns.Len()
	v := &Voter{nodes: ns, cfg: cfg, state: make([]nodeState, n), servers: make([]servers, n)}
	v.renewal = termRenewal{answers: make(chan *request, maxUnderWay*n), underWay: make([]int, n), left: make([]atomic.Pointer[time.Time], n)}
	return v
}

// Go runs fn on a goroutine that WaitIdle waits for.
func (v *Voter) Go(fn func()) { v.background.Go(fn) }

// WaitIdle blocks until no announcement, no release and no late claim is under way, for at most d.
func (v *Voter) WaitIdle(d time.Duration) { v.background.wait(d) }

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

// servers is what a node's address has shown of the servers behind it. Safe for concurrent use.
type servers struct {
	mu  sync.Mutex
	ids []string  // their identities, the newest last
	met time.Time // when it showed that
}

// several is when an address was last seen to lead to several servers, and to which.
type several struct {
	at  time.Time
	ids []string
}

const (
	maxServers = 8      // whose identities are remembered
	noIdentity = "none" // of a server without data of the election
)

// meet compares the identity that a node shows, to a request that was sent at that time, with those that it had before. A
// node that loses its data gets another one, and never an earlier one again: then several servers answer.
func (v *Voter) meet(node int, id string, sent, answered time.Time) {
	s := &v.servers[node]
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" || sent.Before(s.met) { // requests that overlap have no order
		return
	}
	if sent.Sub(s.met) > 3*v.cfg.Lease { // of an election that rested: a backup may have been restored since, and all be well
		s.ids = nil
	}
	s.met = answered
	i := slices.Index(s.ids, id)
	if i >= 0 && i < len(s.ids)-1 && id != noIdentity {
		n := v.nodes.list[node]
		if v.suspected(node) == nil { // its name may have moved: old connections must not keep this process there
			n.open.leave()
		}
		n.several.Store(&several{answered, slices.Sorted(slices.Values(s.ids))})
	}
	if i >= 0 {
		s.ids = slices.Delete(s.ids, i, i+1)
	}
	s.ids = append(s.ids, id)
	s.ids = s.ids[max(0, len(s.ids)-maxServers):]
}

// suspected returns why a node has no vote: an election of this process has seen within a lease that its address leads to
// several servers; nil: none has.
func (v *Voter) suspected(node int) error {
	s := v.nodes.list[node].several.Load()
	if s == nil || time.Since(s.at) >= v.cfg.Lease {
		return nil
	}
	return rediserr.Refusal(fmt.Sprintf("leads to several servers (identities %s): give the address of one, unless the name has moved within a lease", strings.Join(s.ids, ", ")))
}

// Several returns why no lock can hold on these nodes: too many of them have no vote. nil: it can.
func (v *Voter) Several() error {
	var all []error
	for i := range v.state {
		if err := v.suspected(i); err != nil {
			all = append(all, v.nodes.NodeError(i, err))
		}
	}
	if len(v.state)-len(all) >= v.nodes.Majority() {
		return nil
	}
	return errors.Join(all...)
}

// Look reads the identities of the nodes over new connections, in the background, unless an election of this process
// has begun to within that time. It calls found, on another goroutine, if no lock can hold (Several).
func (v *Voter) Look(within time.Duration, found func(error)) {
	now := time.Now()
	for i, n := range v.nodes.list {
		last := n.looked.Load()
		if last != nil && now.Sub(*last) < within {
			continue
		}
		if at := now; !n.looked.CompareAndSwap(last, &at) {
			continue
		}
		v.Go(func() {
			ctx, cancel := context.WithTimeout(v.nodes.life, v.cfg.CallTimeout)
			defer cancel()
			n.Reconnect(func(c *redis.Client) {
				if !lease.Sleep(ctx, rand.N(10*time.Millisecond)) { // of two leaders that look in step each would only meet its own server
					return
				}
				sent := time.Now()
				if id, err := c.Get(ctx, v.cfg.Keys.ID).Result(); err == nil || rediserr.Missing(err) {
					v.meet(i, cmp.Or(protocol.ParseIdentity(id), noIdentity), sent, time.Now())
				}
			})
			if err := v.Several(); err != nil {
				found(err)
			}
		})
	}
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

// Rival is the lock of another candidate on a node.
type Rival struct {
	Node   string
	Holder protocol.LockValue
	What   string // in what its configuration differs from this voter's, so that both could lead; empty: in nothing
	Sure   bool   // not only in the identities of the nodes, which may be out of date in a lock
	Late   bool   // it refused the claim that won the term, and the answer came after that

	attempt              string
	first, differs, last time.Time // of the answers in a row that showed it there: the first, the first that differed, the last
	asked                time.Time // when the request of the last one was sent: the lock may be gone when it arrives
}

// For returns how long answers in a row have shown the lock on its node, from that time on.
func (r Rival) For(from time.Time) time.Duration {
	return r.asked.Sub(slices.MaxFunc([]time.Time{r.first, from}, time.Time.Compare))
}

// Differed returns how long they have shown it with another configuration.
func (r Rival) Differed() time.Duration { return r.last.Sub(r.differs) }

// Rivals returns the rivals that the nodes have shown in their last answers, also in those to earlier attempts and
// in those that came after their round was over.
func (v *Voter) Rivals() []Rival {
	var all []Rival
	for i := range v.state {
		if r := v.rival(i); r != nil {
			all = append(all, *r)
		}
	}
	return all
}

// rival returns the rival on a node; nil: there is none. It is remembered until the node has shown that its lock is
// gone. A node that does not answer can't show that, but a lock that is not renewed lapses.
func (v *Voter) rival(node int) *Rival {
	r := v.state[node].rival
	if r == nil || time.Since(r.last) > r.Holder.Lease {
		return nil
	}
	var ids []string // a node that did not answer may have another one by now
	for _, n := range v.state {
		if n.id != "" && !n.unresponsive {
			ids = append(ids, n.id)
		}
	}
	n, lease := v.nodes.Len(), v.cfg.Lease
	r.What = r.Holder.Differs(n, lease, ids)
	r.Node, r.Sure = v.nodes.list[node].Name, r.Holder.Differs(n, lease, nil) != ""
	return r
}

// request makes a request of an attempt to one node. The outcome comes on ended.
func (v *Voter) request(node int, s protocol.ElectionScript, what protocol.Request, wanted func() bool, ended chan<- *request) *request {
	what.Keys, what.Incarnation, what.Lease = &v.cfg.Keys, v.cfg.Incarnation, v.cfg.Lease.Milliseconds()
	return &request{Request: what, script: s, limit: v.cfg.CallTimeout, node: node, asked: time.Now(), wanted: wanted, ended: ended}
}

// ask makes a request of a round of the newest attempt to one node.
func (v *Voter) ask(r *round, node int, s protocol.ElectionScript, what protocol.Request, wanted func() bool, ended chan<- *request) *request {
	r.sent[node]++
	what.Seq = v.seq
	q := v.request(node, s, what, wanted, ended)
	q.round = r
	return q
}

// note records what the outcome of a request shows of its node. A node that leads to several servers has no vote.
func (v *Voter) note(r *request) {
	if r.sent.IsZero() {
		return
	}
	a, n := r.answer, &v.state[r.node]
	n.unresponsive = a.Status == protocol.Unknown
	switch {
	case a.Status == protocol.Held:
		n.bereft = time.Time{}
	case n.parted && !n.unresponsive && n.rival != nil && a.Fence <= n.rival.Holder.Token: // a release would have raised it
		n.bereft = time.Now()
	}
	n.parted = n.unresponsive && (n.parted || Lost(a.Err))
	if a.ID != "" || n.unresponsive {
		v.identify(r.node, a.ID)
		v.meet(r.node, a.ID, r.sent, r.sent.Add(r.took))
	}
	if a.ID == "" || n.newIdentity == a.ID {
		n.newIdentity = "" // taken, perhaps: once the node forgets it, it must not get it again
	}
	if !n.unresponsive {
		v.nodes.list[r.node].answered.Store(&answered{r.sent, time.Now()})
		n.counter = max(n.counter, a.Fence)
		n.rival, n.gone = n.rival.next(a, r.sent), a.Status == protocol.NoLock
	}
	v.noteLate(r)
	if err := v.suspected(r.node); err != nil {
		r.answer = protocol.Answer{Status: protocol.Unknown, Err: err, Subscribers: -1}
	}
}

// noteLate counts a request, also one whose outcome the voter's goroutine did not wait for.
func (v *Voter) noteLate(r *request) {
	if r.sent.IsZero() {
		return
	}
	r.answer.Err = rediserr.CandidateNeeds(r.answer.Err, v.cfg.Keys.Prefix())
	if v.cfg.RequestEnded != nil {
		v.cfg.RequestEnded(r.node, r.took, v.nodes.NodeError(r.node, r.answer.Err))
	}
}

// late takes the outcomes that a round did not wait for, in the background.
func (v *Voter) late(r *round, ended <-chan *request) {
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

// next returns the other candidate that holds a node by its answer, or nil; r is the one from before.
func (r *Rival) next(a protocol.Answer, asked time.Time) *Rival {
	if a.Status != protocol.Taken && a.Status != protocol.Held {
		return nil
	}
	b, err := protocol.ParseLockValue(a.Holder)
	if err != nil {
		return nil
	}
	now := time.Now()
	next := &Rival{Holder: b, first: now, differs: now, last: now, asked: asked}
	if next.attempt, _, _ = strings.Cut(a.Holder, " "); r != nil && r.attempt == next.attempt {
		next.first = r.first
		if r.What != "" {
			next.differs = r.differs
		}
	}
	return next
}
