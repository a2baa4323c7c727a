package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// claimAndJudge claims once, and returns the term that it won. The error is why this candidate has given
// back a majority that it had won, or an ErrPermanent. Without a term and an error the claim was lost.
func (m *machine) claimAndJudge(ctx context.Context) (*Term, quorum.Tally, error) {
	token, sent, tally := m.claim(ctx)
	switch {
	case token > 0:
	case ctx.Err() != nil: // the requests were abandoned, which shows nothing about the nodes
		return nil, tally, nil //nolint:nilerr // the caller sees that ctx has ended
	default:
		return nil, tally, m.assess(tally)
	}
	grant := lease.NewGrant(m.clock, m.timing, sent)
	if tally.Count(protocol.SameServer) > 0 {
		m.voter.Abandon()
		if err := m.assess(tally); err != nil {
			return nil, tally, err
		}
	}
	refuses, err := m.refusal(tally)
	if refuses || ctx.Err() != nil || !grant.Valid() || !m.probes.fit() {
		m.voter.Abandon()
		m.setTrouble(campaigning, err)
		return nil, tally, err
	}
	m.setTrouble(campaigning, nil)
	m.notePause(tally)
	return newTerm(ctx, m.clock, token, grant), tally, nil
}

// claim claims once, and returns when it sent that claim. It claims again when all nodes answer that they are new, and
// this candidate may assume that there is no leader (bootstraps): then it names the markers that it found, so that a node
// that loses its data only after that answer still abstains.
func (m *machine) claim(ctx context.Context) (token uint64, sent lease.Stamp, tally quorum.Tally) {
	if m.voter.Several() != nil {
		m.voter.CheckAddresses(m.cfg.Lease/3, func(error) {}) // whether they still do
	}
	clock, echo := uint64(max(0, time.Now().UnixMilli())), m.bus.Echo(m.cfg.Lease/2)
	hint := func(asked quorum.Tally) (token uint64) {
		m.memory.learn(asked)
		sent = m.clock.Now()
		return m.memory.highest + 1
	}
	claim := func(markers []string) {
		token, tally = m.voter.Claim(ctx, hint, clock, markers, echo)
		m.memory.learn(tally)
	}
	claim(nil)
	if token == 0 && tally.Count(protocol.Abstains) == len(tally.Answers) && m.bootstraps() {
		markers := make([]string, len(tally.Answers))
		for i, a := range tally.Answers {
			markers[i] = a.Note
		}
		m.log.Info("starting a new election")
		claim(markers)
	}
	m.noteAbstention(tally)
	m.memory.answered = m.memory.answered || token != 0 && tally.Count(protocol.SameServer) == 0
	if tally.Answered() {
		m.noteLocks(tally.Locks())
		// Where a node knows of an election, another candidate may have been elected.
		m.dataLost = m.dataLost && tally.Count(protocol.Abstains) == len(tally.Answers)
	}
	return token, sent, tally
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
	if m.dataLost {
		_, left := m.serving.grant.Left()
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

// noteLocks records what the locks of a majority of the nodes show: who leads, and for how much longer.
func (m *machine) noteLocks(locks []protocol.Lock) {
	m.memory.answeredAt = m.clock.Now()
	in, ok := protocol.HolderOf(locks, m.nodes.Majority())
	var leader *Leader
	before := m.memory.led
	m.memory.led = ""
	if ok && in.Incarnation != "" { // a lock of another program names no candidate
		leader = &Leader{Candidate: in.Candidate, Incarnation: in.Incarnation, Advertise: in.Advertise, Token: in.Token}
		m.memory.led = in.Attempt
	}
	m.published.update(func(s *state) { s.leader = leader })
	if leader != nil && leader.Incarnation != m.incarnation && m.memory.led != before {
		m.log.Info("new leader", "leader", in.Candidate, "leader_token", in.Token)
	}
}

// assess records what a lost claim has shown, and returns an error when waiting
// can't help.
func (m *machine) assess(t quorum.Tally) error {
	errs := t.Errors()
	if t.Count(protocol.SameServer) == 0 && t.Answered() {
		m.memory.answered = true
		_, err := m.refusal(t)
		if err == nil && len(t.Answers)-len(errs) < m.nodes.Majority() {
			err = noMajority(len(t.Answers), errs) // whoever holds the lock now
		}
		m.setTrouble(campaigning, err)
		m.notePause(t)
		return nil
	}
	if (count(errs, rediserr.Permanent) >= m.nodes.Majority() || t.Count(protocol.SameServer) > 0) && !m.memory.answered {
		return onNodes(ErrPermanent, errs)
	}
	m.setTrouble(campaigning, noMajority(len(t.Answers), errs))
	return nil
}

// refusal reports whether this candidate must not lead even if it has won, and why: another candidate uses another set of
// nodes or another lease, so that both could lead.
//
// Without a reason that is not certain yet. A lock value may name a node by the identity that the node had
// before it lost its data, as in a claim or a renewal that arrived late. Such a lock lapses: only a lock
// that is met again and again is a leader's.
func (m *machine) refusal(t quorum.Tally) (refuses bool, why error) {
	for _, a := range t.Answers {
		if a.Status == protocol.SameServer {
			return true, joinNodes(t.Errors())
		}
		if a.Status != protocol.Held {
			continue
		}
		_, err := protocol.ParseLockValue(a.Holder)
		if other := protocol.OtherVersion(0); errors.As(err, &other) {
			return true, fmt.Errorf("%w: refusing to lead until all candidates have the same", err)
		}
		if err != nil {
			err = fmt.Errorf("%w: if nothing else uses the key %s, delete it", err, m.keys.Lock)
			if t.Majority(protocol.Won) { // another program's key on a minority does not imply another set of nodes
				m.log.Warn("redis node cannot vote", "error", err)
				continue
			}
			return true, err
		}
	}
	for _, r := range m.voter.Rivals() {
		if r.What == "" {
			continue
		}
		if refuses = true; r.Sure || r.Differed() > 5*r.Holder.Lease/2 { // requests that arrive late can't keep a lock for so long
			return true, fmt.Errorf("%s holds the lock and %s: refusing to lead until all candidates agree", r.Holder.Candidate, r.What)
		}
	}
	return refuses, nil
}

// memory is what a candidate remembers of its election, from one Run to the next: a candidate that has
// led before must not mistake a loss of data for the first start of the election.
type memory struct {
	highest          uint64      // the highest counter or token seen on any node
	traced           bool        // a node has shown a trace of an earlier election, or this candidate has won one
	answeredAt       lease.Stamp // when a majority last answered a claim or a poll; zero: never
	answered         bool        // a majority has answered a claim before
	abstentionLogged bool        // logged that nodes abstain
	configLogged     bool        // logged the configuration
	led              string      // the attempt of the leader that the nodes last showed; "": none
}

// learn records what a tally shows. A counter above zero, a holder, a pause and a reservation are traces
// of the election.
func (k *memory) learn(t quorum.Tally) {
	for _, a := range t.Answers {
		k.sawNode(a.Fence, a.Status == protocol.Held || a.Status == protocol.Paused || a.Status == protocol.Reserved)
	}
}

// sawNode records the counter of a node, and whether the node has shown another trace of the election. A
// node that has lost everything shows none.
func (k *memory) sawNode(counter uint64, trace bool) {
	if counter < protocol.MaxToken { // a node grants nothing above it: it must not keep the others from granting
		k.highest = max(k.highest, counter)
	}
	k.traced = k.traced || counter > 0 || trace
}
