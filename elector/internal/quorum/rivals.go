package quorum

import (
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

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
	r.Node, r.Sure = v.nodes.All()[node].Name, r.Holder.Differs(n, lease, nil) != ""
	return r
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
