package quorum

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// nodeState is what a voter knows of a node. It belongs to the voter's goroutine.
type nodeState struct {
	unresponsive bool   // the last request got no answer
	offer        string // an identity that the node may take; empty: the next request needs a new one

	// Of the newest term.
	counter uint64 // the highest counter that the node has shown
	rival   *rival // the other candidate that held the lock at the last renewal; nil: none
	gone    bool   // at the last renewal the lock was free, and the counter higher than ours
}

// note records the outcome of a request: the answer, or that the node is not responding.
func (n *nodeState) note(a protocol.Answer) {
	n.unresponsive = a.Status == protocol.Unknown
	if n.unresponsive {
		return
	}
	n.counter = max(n.counter, a.Fence)
	n.rival, n.gone = n.rival.next(a), a.Status == protocol.NoLock
}

func (n *nodeState) forget() { n.counter, n.rival, n.gone = 0, nil, false }

// offers returns the identity that the next request offers to the node.
func (n *nodeState) offers() string {
	if n.offer == "" {
		n.offer = protocol.NewIdentity()
	}
	return n.offer
}

// answeredWith takes back the offer that a node took, or may have taken: once the node forgets it, it
// must not get it again.
func (n *nodeState) answeredWith(id string) {
	if id == "" || n.offer == id {
		n.offer = ""
	}
}

// identities is how an elector knows the nodes. Safe for concurrent use.
type identities struct {
	lease time.Duration

	mu  sync.Mutex // guards all
	all []identity // by node
}

type identity struct {
	id    string
	asked time.Time // when the last request was sent that the node answered
}

// meet records the identity in a node's answer to a request that was sent at that time.
func (k *identities) meet(node int, id string, sent time.Time) {
	if id == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[node] = identity{id, sent}
}

// known returns the nodes' identities. That of a node is empty if it has not been confirmed lately: a node
// that was taken out of service must not count for ever. The wall clock counts as well, since it
// continues while the machine sleeps.
func (k *identities) known() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, ids := time.Now(), make([]string, len(k.all))
	for i, n := range k.all {
		if n.id != "" && max(now.Sub(n.asked), now.Sub(n.asked.Round(0))) <= protocol.ConfirmedWithin(k.lease) {
			ids[i] = n.id
		}
	}
	return ids
}

// rival is an attempt of another candidate that holds a node's lock during our newest term.
type rival struct {
	attempt, holder string
	since, last     time.Time
}

// next returns the rival that a renewal's answer shows, or nil; r is the one from before.
func (r *rival) next(a protocol.Answer) *rival {
	if a.Status != protocol.Taken || a.Holder == "" {
		return nil
	}
	_, attempt := protocol.AttemptOf(a.Holder)
	now := time.Now()
	next := &rival{attempt: attempt, holder: a.Holder, since: now, last: now}
	if r != nil && r.attempt == attempt {
		next.since = r.since
	}
	return next
}
