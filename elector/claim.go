package elector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// claim claims once. When all nodes answer that they are new, and this
// candidate may assume that there is no leader (bootstraps), it starts a new election: it claims
// again and names the markers that it found, so that a node that loses its data only after that
// answer still abstains.
func (m *machine) claim(ctx context.Context) (token uint64, tally quorum.Tally) {
	hint := m.hint()
	token, tally = m.voter.Claim(ctx, hint, nil)
	m.memory.learn(tally)
	if token == 0 && tally.Count(protocol.Abstains) == len(tally.Answers) && m.bootstraps() {
		markers := make([]string, len(tally.Answers))
		for i, a := range tally.Answers {
			markers[i] = a.Note
		}
		m.log.Info("starting a new election")
		token, tally = m.voter.Claim(ctx, hint, markers)
		m.memory.learn(tally)
	}
	m.noteAbstention(tally)
	m.memory.answered = m.memory.answered || token != 0 && tally.Count(protocol.SameServer) == 0
	if tally.Answered() {
		m.memory.answeredAt = m.clock.Now()
		m.noteLeader(tally.Holders())
		m.noteLease(tally)
		if t := m.term.Load(); t != nil && tally.Count(protocol.Abstains) < len(tally.Answers) {
			t.dataLost.Store(false) // a node knows of an election, so another candidate may have been elected
		}
	}
	return token, tally
}

// hint returns the lowest token that a claim requests.
func (m *machine) hint() uint64 {
	return max(m.memory.highest+1, uint64(max(0, time.Now().UnixMilli())))
}

// noteLease records what a claim has shown of another leader's lease.
func (m *machine) noteLease(t quorum.Tally) {
	left := make([]heldFor, 0, len(t.Answers))
	for _, a := range t.Answers {
		if a.Status == protocol.Held {
			left = append(left, heldFor{a.Holder, a.Left})
		}
	}
	m.noteHeld(left)
}

// heldFor is a node's lock, and how much of its lease is left.
type heldFor struct {
	holder string
	left   time.Duration
}

// noteHeld records another leader's lease if these locks show one.
func (m *machine) noteHeld(locks []heldFor) {
	holders := make([]string, len(locks))
	for i, l := range locks {
		holders[i] = l.holder
	}
	in, ok := protocol.HolderOf(holders, m.nodes.Majority())
	if !ok || in.Incarnation == "" || in.Incarnation == m.incarnation || in.Lease <= 0 {
		return
	}
	var left []time.Duration
	for _, l := range locks {
		if in.Holds(l.holder) {
			left = append(left, l.left)
		}
	}
	slices.Sort(left)
	m.memory.sawLeader(m.clock.Now(), in.Lease, left[len(left)-m.nodes.Majority()])
}

// bootstraps reports whether this candidate may assume that there is no leader when no
// node knows of one, and so claim at once instead of after the lease for which
// such nodes abstain. Two candidates may:
//
//   - A candidate that began less than a lease ago and has seen no trace of an election:
//     a first start. It can't distinguish this from a loss of data that came before its
//     first answer. After a lease it may not: waiting then costs no more than the time
//     that has passed already, whatever kept it from querying the nodes (its probe,
//     unreachable nodes, a suspended process or machine).
//   - The leader whose lock was lost with the data: until its own lease ends no other
//     candidate is elected, and its own work has returned.
func (m *machine) bootstraps() bool {
	if t := m.term.Load(); t != nil && t.dataLost.Load() {
		_, left := t.grant.Left()
		return left > 0
	}
	if m.memory.traced {
		return false
	}
	elapsed, ok := m.clock.Since(m.begun)
	return ok && elapsed < m.cfg.Lease
}

// noteAbstention logs that the election waits for nodes that abstain, once until
// they vote again.
func (m *machine) noteAbstention(t quorum.Tally) {
	abstain := t.Count(protocol.Abstains)
	waits := abstain > 0 && t.Count(protocol.Won)+abstain >= m.nodes.Majority() && t.Count(protocol.Won) < m.nodes.Majority()
	if waits && !m.memory.abstentionLogged {
		m.log.Info("waiting for nodes that abstain",
			"nodes", abstain, "at_most", unit(m.cfg.Lease))
	}
	m.memory.abstentionLogged = waits
}

// notePause records what a claim has shown of a pause.
func (c *candidate) notePause(t quorum.Tally) {
	note := ""
	if t.Majority(protocol.Paused) {
		for _, a := range t.Answers {
			if a.Status == protocol.Paused {
				note = a.Note
			}
		}
	} else if t.Count(protocol.Held) > 0 {
		return // a node whose lock is held reports the holder instead of a pause
	}
	c.setPaused(note)
}

// assess records what a lost claim has shown, and returns an error when waiting
// can't help.
func (m *machine) assess(t quorum.Tally) error {
	errs := t.Errors()
	majority := m.nodes.Majority()
	if t.Count(protocol.SameServer) == 0 && t.Answered() {
		m.memory.answered = true
		m.setCondition(m.refusal(t))
		m.notePause(t)
		return nil
	}
	permanent := 0
	for _, err := range errs {
		if rediserr.Permanent(err) {
			permanent++
		}
	}
	if (permanent >= majority || t.Count(protocol.SameServer) > 0) && !m.memory.answered {
		return onNodes(ErrPermanent, errs)
	}
	m.setCondition(unreachable(t))
	return nil
}

// unreachable returns why a claim or a renewal was not decided. Its key stays the same when nodes
// that refused become unreachable, and the other way round.
func unreachable(t quorum.Tally) condition {
	return condition{key: ErrUnreachable.Error(), err: noMajority(len(t.Answers), t.Errors())}
}

// whyUnconfirmed returns why a renewal did not extend the lease.
func whyUnconfirmed(t quorum.Tally) condition {
	if !t.Answered() {
		return unreachable(t)
	}
	what := fmt.Errorf("only %d of %d Redis nodes renewed the lease", t.Count(protocol.Renewed), len(t.Answers))
	return condition{key: "renewal", err: onNodes(what, t.Errors())}
}

// refusal returns why this candidate must not lead even if it has won: another
// candidate uses another set of nodes or another lease, so that both could lead.
// It also logs that another process uses this candidate's id.
func (m *machine) refusal(t quorum.Tally) condition {
	refuse := func(format string, args ...any) condition {
		err := failed(nil, format, args...)
		return condition{key: err.Error(), err: err}
	}
	for _, a := range t.Answers {
		if a.Status == protocol.SameServer {
			return refuse("%w", joinNodes(t.Errors()))
		}
		if a.Status != protocol.Held {
			continue
		}
		b, err := protocol.ParseLockValue(a.Holder)
		if err != nil {
			no := refuse("%w: if nothing else uses the key %s, delete it", err, m.keys.Lock)
			if t.Majority(protocol.Won) { // another program's key on a minority does not imply another set of nodes
				m.log.Warn("redis node cannot vote", "error", no.err)
				continue
			}
			return no
		}
		if n := len(t.Answers); b.Nodes != n {
			return refuse("%s holds the lock and counts %d Redis nodes, this candidate %d: "+
				"refusing to lead until all candidates agree", b.Candidate, b.Nodes, n)
		}
		if b.Lease != m.cfg.Lease {
			return refuse("%s holds the lock with a lease of %v, this candidate uses %v: "+
				"refusing to lead until all candidates agree", b.Candidate, b.Lease, m.cfg.Lease)
		}
		if b.Candidate == m.cfg.ID && b.Incarnation != m.incarnation && !m.memory.twinLogged {
			m.memory.twinLogged = true
			m.log.Info("lock is held under this candidate's id by a previous incarnation or another process", "holder", a.Holder)
		}
	}
	return m.mismatch(t)
}

// mismatch finds a holder that votes with other nodes than this candidate: each could
// win a majority of its own. This candidate refuses to lead at once, but reports the
// mismatch only when it is certain. A lock value may name a node by the identity that the
// node had before it lost its data, as in a claim or a renewal that arrived late. Such a
// lock lapses: only a lock that is met again and again is a leader's.
func (m *machine) mismatch(t quorum.Tally) (no condition) {
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
		if a.Status != protocol.Held {
			continue
		}
		b, err := protocol.ParseLockValue(a.Holder)
		if err != nil || !b.Identities.Differ(ids, n) {
			continue
		}
		met = a.Holder
		if m.memory.keepsDiffering(m.clock, a.Holder, b.Lease) && b.Identities.Differ(settled, n) {
			err := failed(nil, "%s holds the lock and votes with other Redis nodes than this candidate: "+
				"refusing to lead until all candidates list the same", b.Candidate)
			return condition{key: err.Error(), err: err}
		}
		no.quiet = true
	}
	if met == "" {
		m.memory.differs = ""
	}
	return no
}
