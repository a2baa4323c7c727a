package elector

import (
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// bootstraps tells whether this candidate may believe that no leader sits when no
// node knows of one, and so claim at once instead of after the lease for which
// such nodes abstain. There are two such candidates:
//
//   - One that began less than a lease ago and has seen no trace of an election: a
//     first start. It can't tell this from a loss of data that came before its
//     first answer. From a lease on waiting costs as much as it has waited already,
//     so whatever kept it from asking (its probe, Redis out of reach, a process or
//     machine that was suspended) is no excuse.
//   - The leader from which the loss took the lock: its own lease still keeps
//     everybody else from being elected, and its own work has returned.
func (m *machine) bootstraps() bool {
	if t := m.term.Load(); t != nil && t.bereft.Load() {
		_, left := t.grant.Left()
		return left > 0
	}
	if m.memory.traced {
		return false
	}
	elapsed, ok := m.clock.Since(m.begun)
	return ok && elapsed < m.cfg.Lease
}

// bereaved tells whether a renewal found that a majority of the nodes had lost not
// only the lock, which others may then have had, but all that they knew.
func bereaved(t quorum.Tally) bool {
	lost := 0
	for _, a := range t.Answers {
		if a.Status == quorum.Planted && a.Note == quorum.Forgot {
			lost++
		}
	}
	return lost > len(t.Answers)/2
}
