package quorum

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Release releases the locks of one term. It can be tried until it is definite: its
// requests name the attempt that won the term, so a late or repeated one does not
// touch a newer lock. It does not follow the term's last renewal: a renewal that a node executes after it
// finds the counter closed. It belongs to one goroutine at a time, and may outlive the term.
type Release struct {
	v        *Voter
	seq      uint64
	value    string
	token    uint64
	heir     protocol.Heir
	event    event    // what the nodes publish and record
	counters []uint64 // the highest counters that the term's renewals can name

	ended    chan *nodes.Request     // the outcomes
	underWay []bool                  // by node
	done     map[int]protocol.Answer // the answers of the nodes where it is definite
	silent   map[int]bool            // the nodes that did not answer a request
}

// Releasing ends the attempt that won the term and returns its Release, which Try
// sends. The nodes publish and record text with the end of the term. A later Claim does not change the Release.
func (v *Voter) Releasing(token uint64, heir protocol.Heir, text []byte) *Release {
	v.alive.Store(0)
	v.events++
	n := v.nodes.Len()
	r := &Release{
		v: v, seq: v.seq, value: v.lock.String(), token: token, heir: heir, event: event{v.events, string(text)},
		ended: make(chan *nodes.Request, n), underWay: make([]bool, n), done: map[int]protocol.Answer{}, silent: map[int]bool{},
	}
	for _, s := range v.state {
		r.counters = append(r.counters, s.counter)
	}
	return r
}

// NewVoterOf returns a Voter that can only release the term that another process has won by that
// attempt. It does not know which counters the renewals of that process were shown: a renewal that
// is still under way may plant the lock again on a node whose counter is higher than the token, and
// hold that node for a lease. Such nodes are never a majority.
func NewVoterOf(ns *nodes.Nodes, cfg VoterConfig, attempt, token uint64) *Voter {
	v := NewVoter(ns, cfg)
	v.seq, v.onlyHeld = attempt, true
	v.lock = protocol.LockValue{
		Candidate: cfg.Candidate, Incarnation: cfg.Incarnation, Seq: attempt,
		Nodes: ns.Len(), Lease: cfg.Lease, Advertise: cfg.Advertise, Token: token,
	}
	return v
}

// Try releases the lock on the nodes where that is not definite yet, and makes them publish and record it. It
// blocks until it is known whether a majority has released; the requests to the other nodes
// continue. Each request waits at most limit to be sent, and at most the call time-out for its
// answer. Try takes no context: a cancelled one must not leave a lock behind.
func (r *Release) Try(limit time.Duration) Tally {
	for len(r.ended) > 0 { // the outcomes that came since the last try
		r.note(<-r.ended)
	}
	r.Send(limit)
	// Once a majority has released it, a further try waits a moment for the rest.
	rd := newRound(r.v.nodes, protocol.Released, r.Definite())
	for node := range r.counters {
		rd.pending[node]++ // also if an earlier try has sent the request
		if a, ok := r.done[node]; ok {
			rd.record(node, a)
		}
	}
	rd.await(r.ended, r.note)
	return rd.Tally
}

// Send sends the requests of the next Try, and does not block.
func (r *Release) Send(limit time.Duration) {
	for node := range r.counters {
		if _, ok := r.done[node]; !ok && !r.underWay[node] {
			r.send(node, limit)
		}
	}
}

func (r *Release) send(node int, limit time.Duration) {
	r.underWay[node] = true
	r.v.release(node, r.seq, protocol.Request{
		Value: r.value, Token: r.token, Successor: r.heir.Incarnation, Keep: r.heir.Keep.Milliseconds(),
		Closed: max(r.token, r.counters[node]) + 1, OnlyHeld: r.v.onlyHeld, Event: r.event.text,
	}, limit, r.ended)
}

// release sends the release of an attempt to a node, if that is possible within limit.
func (v *Voter) release(node int, attempt uint64, what protocol.Request, limit time.Duration, ended chan<- *nodes.Request) {
	until := time.Now().Add(limit)
	what.Seq = attempt
	v.nodes.All()[node].Send(v.request(node, protocol.ReleaseScript, what, func() bool { return time.Now().Before(until) }, ended))
}

// Until repeats the release, at first at once and on a new connection, then less and less often, until enough returns
// true, the lock has lapsed, ctx has ended, or the nodes are closed. It returns the tally of the last try.
func (r *Release) Until(ctx context.Context, lapsesIn func() time.Duration, enough func() bool) (tally Tally) {
	const first, last = 256, 16 // the waits between two tries, in parts of a lease
	left := time.Duration(1)
	for wait := time.Duration(0); !enough() && left > 0; wait = min(max(2*wait, r.v.cfg.Lease/first), r.v.cfg.Lease/last) {
		lease.Sleep(ctx, wait)
		left = lapsesIn()
		tally = r.Try(max(left, r.v.cfg.CallTimeout))
		if ctx.Err() != nil || r.v.nodes.Closed() {
			break
		}
	}
	return tally
}

func (r *Release) note(a *nodes.Request) {
	r.underWay[a.Node] = false
	r.v.noteLate(a)
	if a.Answer.Status == protocol.Unknown {
		r.silent[a.Node] = r.silent[a.Node] || !a.Sent.IsZero()
		return
	}
	r.done[a.Node] = a.Answer
}

// Missed notes that the lock has lapsed before a majority answered: the event is recorded with the next announcement.
func (r *Release) Missed() {
	if !r.Definite() {
		r.v.keepMissed(r.event)
	}
}

// Left returns on how many nodes the lock may still be this term's.
func (r *Release) Left() int { return r.v.nodes.Len() - len(r.done) }

// Released reports whether a node held the lock for this term and released it, or may have: an
// answer of the node was lost, and the lock is gone.
func (r *Release) Released() bool {
	for node, a := range r.done {
		if a.Status == protocol.Released || a.Status == protocol.NoLock && r.silent[node] {
			return true
		}
	}
	return false
}

// Definite reports whether a majority of the nodes no longer holds the lock for this term, so
// that another candidate can be elected.
func (r *Release) Definite() bool { return r.v.nodes.Len()-r.Left() >= r.v.nodes.Majority() }
