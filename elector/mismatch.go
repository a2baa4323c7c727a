package elector

import (
	"fmt"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// mismatch finds a holder that votes with other nodes than this candidate: each could
// win a majority of its own. It is refused at once, and reported when it is sure: a
// lock value may name a node by the identity that it had before it lost its data, in a
// claim or a renewal that arrived late, too. Such a lock lapses: only one that is met
// again and again is a leader's.
func (m *machine) mismatch(t quorum.Tally) (no trouble) {
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
		if m.memory.outlives(m.clock, a.Holder, b.Lease) && b.Identities.Differ(settled, n) {
			err := failed(nil, "%s holds the lock and votes with other Redis nodes than this candidate: "+
				"refusing to lead until all candidates list the same", b.Candidate)
			return trouble{key: err.Error(), err: err}
		}
		no.quiet = true
	}
	if met == "" {
		m.memory.differs = ""
	}
	return no
}

// rival is why a sitting leader must not go on: somebody else holds one of its nodes,
// for longer than a lock lives that nobody renews, and counts, or knows, other nodes.
// There is a second leader then. Both don't always see it; who does makes room.
func (m *machine) rival() error {
	n := m.nodes.Len()
	for _, r := range m.voter.Rivals() {
		b, err := quorum.ParseBallot(r.Holder)
		if err != nil || r.For <= b.Lease+b.Lease/8 {
			continue // an attempt that nobody renews lapses
		}
		what := ""
		switch {
		case b.Nodes != n:
			what = fmt.Sprintf("counts %d Redis nodes, not %d", b.Nodes, n)
		case b.Lease != m.cfg.Lease:
			what = fmt.Sprintf("uses a lease of %v, not %v", b.Lease, m.cfg.Lease)
		case b.Identities.Differ(m.voter.Identities().Known(), n):
			what = "votes with other Redis nodes"
		default:
			continue
		}
		return failed(nil, "another leader, %s, holds the lock of %s and %s", b.Candidate, r.Node, what)
	}
	return nil
}
