package elector

import (
	"fmt"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// mismatch finds a holder that votes with other nodes than this candidate: each could
// win a majority of its own. It is refused at once, and reported when it is sure: a
// lock value may name a node by the identity that it had before it lost its data, in a
// claim or a renewal that arrived late, too. Such a lock lapses: only one that is met
// again and again is a leader's.
func (e *Elector) mismatch(t quorum.Tally) (no trouble) {
	var ids, settled []string
	for _, a := range t.Answers {
		if a.ID == "" {
			continue
		}
		ids = append(ids, a.ID)
		if a.Settled {
			settled = append(settled, a.ID)
		}
	}
	n := len(t.Answers)
	met := ""
	for _, a := range t.Answers {
		if a.Status != quorum.Held {
			continue
		}
		b, err := quorum.ParseBallot(a.Holder)
		if err != nil || !b.Identities.Differ(ids, n) {
			continue
		}
		met = a.Holder
		if e.known.outlives(e.clock, a.Holder, b.Lease) && b.Identities.Differ(settled, n) {
			err := failed(nil, "%s holds the lock and votes with other Redis nodes than this candidate: "+
				"refusing to lead until all candidates list the same", b.Candidate)
			return trouble{key: err.Error(), err: err}
		}
		no.quiet = true
	}
	if met == "" {
		e.known.differs = ""
	}
	return no
}

// outlives tells whether a lock with another list of nodes was met at each claim for
// longer than late messages of one attempt may keep it up: two and a half leases.
func (k *known) outlives(clock *lease.Clock, holder string, life time.Duration) bool {
	attempt, _, _ := strings.Cut(holder, " ")
	if k.differs != attempt {
		k.differs, k.differsFrom = attempt, clock.Now()
		return false
	}
	held, ok := clock.Since(k.differsFrom)
	return ok && held > 5*life/2
}

// rival is why a sitting leader must not go on: somebody else holds one of its nodes,
// for longer than a lock lives that nobody renews, and counts, or knows, other nodes.
// There is a second leader then. Both don't always see it; who does makes room.
func (e *Elector) rival() error {
	n := e.quorum.nodes.Len()
	for _, r := range e.voter.Rivals() {
		b, err := quorum.ParseBallot(r.Holder)
		if err != nil || r.For <= b.Lease+b.Lease/8 {
			continue // an attempt that nobody renews lapses
		}
		what := ""
		switch {
		case b.Nodes != n:
			what = fmt.Sprintf("counts %d Redis nodes, not %d", b.Nodes, n)
		case b.Lease != e.cfg.Lease:
			what = fmt.Sprintf("uses a lease of %v, not %v", b.Lease, e.cfg.Lease)
		case b.Identities.Differ(e.voter.Identities().Known(), n):
			what = "votes with other Redis nodes"
		default:
			continue
		}
		return failed(nil, "another leader, %s, holds the lock of %s and %s", b.Candidate, r.Node, what)
	}
	return nil
}
