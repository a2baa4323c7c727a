package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// campaign blocks until this candidate has won a term, until ctx ends, or until an
// error occurs that waiting does not cure.
func (m *machine) campaign(ctx context.Context) (*Term, error) {
	m.become(roleFollowing, nil)
	w := m.standBy()
	defer w.Close()
	defer m.standsBy.Store(false)
	for m.awaitHealth(ctx, w) {
		changed := m.probes.changes().candidate // before the claim, so that no change is missed
		term, err := m.claimOnce(ctx, w)
		if term != nil || err != nil {
			return term, err
		}
		w.Wait(ctx, changed, m.claimWanted, m.peers.PauseEnded())
	}
	return nil, ctx.Err()
}

// standBy subscribes to elections and releases.
func (m *machine) standBy() *standby.Waiter {
	return standby.New(standby.Config{
		Settings: standby.Settings{
			Incarnation: m.incarnation, Nodes: m.nodes.Len(), Lease: m.cfg.Lease,
			RetryEvery: m.timing.RetryEvery(), ReservedFor: m.reservedFor(),
		},
		Bus: m.bus, Keys: m.keys, NotSubscribed: m.logNotSubscribed, Listening: m.listening,
	})
}

// claimOnce claims. When the claim is lost, the follower plans the next one.
func (m *machine) claimOnce(ctx context.Context, w *standby.Waiter) (*Term, error) {
	if err := m.meet(ctx); err != nil {
		return nil, err
	}
	w.ForgetMessages()
	term, tally, refused, err := m.claimAndJudge(ctx)
	if term != nil || err != nil {
		return term, err
	}
	w.Lost(tally)
	if refused.err != nil {
		w.Refused(tally)
	}
	return nil, nil //nolint:nilnil // neither won nor failed: lost
}

// claimAndJudge claims once. It returns the term; or, as the condition, why
// this candidate has given back a majority that it had won; or neither, when the claim was lost.
// The error is one that waiting does not cure.
func (m *machine) claimAndJudge(ctx context.Context) (*Term, quorum.Tally, condition, error) {
	sent := m.clock.Now()
	token, tally := m.claim(ctx)
	switch {
	case token > 0:
	case ctx.Err() != nil: // the requests were abandoned, which shows nothing about the nodes
		return nil, tally, condition{}, nil //nolint:nilerr // the caller sees that ctx has ended
	default:
		return nil, tally, condition{}, m.assess(tally)
	}
	grant := lease.NewGrant(m.clock, m.timing, sent)
	if tally.Count(protocol.SameServer) > 0 {
		m.voter.Abandon()
		if err := m.assess(tally); err != nil {
			return nil, tally, condition{}, err
		}
	}
	if refused := m.refusal(tally); refused.refuses() || ctx.Err() != nil || !grant.Valid() || !m.probes.fit() {
		m.voter.Abandon()
		m.setCondition(refused)
		return nil, tally, refused, nil //nolint:nilerr // the caller sees that ctx has ended
	}
	m.setCondition(condition{})
	m.notePause(tally)
	m.advertised = m.voter.Advertised()
	return newTerm(ctx, m.clock, token, grant), tally, condition{}, nil
}

// tryCampaign claims once, as soon as the candidate's probe has answered.
func (m *machine) tryCampaign(ctx context.Context) (*Term, error) {
	m.become(roleFollowing, nil)
	if err := m.probes.await(ctx); err != nil {
		return nil, err
	}
	if err := m.meet(ctx); err != nil {
		return nil, err
	}
	term, tally, _, err := m.claimAndJudge(ctx)
	switch {
	case term != nil:
		return term, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	if err := m.check(); err != nil { // unreachable nodes, for example, or another list of nodes
		return nil, err
	}
	switch {
	case tally.Count(protocol.Paused) > 0:
		return nil, failed(ErrNotLeader, "not the leader: the election is paused")
	case tally.Count(protocol.Abstains) > 0:
		return nil, failed(ErrNotLeader, "not the leader: nodes that are new or lost their data abstain for a lease")
	default:
		return nil, failed(ErrNotLeader, "not the leader: another candidate leads, or is about to")
	}
}

// awaitHealth blocks while the candidate's probe fails: an unhealthy candidate does not
// campaign. It returns false when ctx ended first.
func (m *machine) awaitHealth(ctx context.Context, w *standby.Waiter) bool {
	if ctx.Err() != nil {
		return false
	}
	if m.probes.candidate == nil {
		return true
	}
	logged := false
	var remind reminder
	look := m.newPoller()
	defer look.close()
	for {
		changed := m.probes.candidate.Changed()
		st := m.probes.candidate.Status()
		if st.Healthy {
			if logged {
				m.log.Info("healthy again", "for", remind.lasted(time.Now()))
				m.subscribers.publish(m.event(EventHealthy, ""))
			}
			return true
		}
		// Before the probe's first result there is nothing to log.
		if !logged && st.LastErr != nil {
			logged = true
			remind.begin(time.Now())
			m.log.Warn("unhealthy, not campaigning", "reason", st.Err)
			m.subscribers.publish(m.event(EventUnhealthy, st.Err.Error()))
		}
		if now := time.Now(); logged && remind.due(now) {
			m.log.Warn("still unhealthy, cannot campaign", "for", remind.lasted(now), "reason", st.Err)
		}
		again := time.NewTimer(m.timing.RenewEvery())
		select {
		case <-ctx.Done():
			again.Stop()
			return false
		case <-changed:
		case <-again.C: // a first failure does not change Healthy
		case <-look.due.C:
			look.start()
		case views := <-look.views:
			look.take(views)
		case s := <-w.Signals():
			w.Receive(s)
		}
		again.Stop()
	}
}

// meet queries the nodes for their identities, which the first claim needs. The error reports that a
// group of shards has the election's name.
func (m *machine) meet(ctx context.Context) error {
	const choose = "choose another name for the election (mandate shards %[1]s shows the group, which is forgotten two leases after its last member has ended)"
	switch group := m.voter.Meet(ctx, m.groups()...); group {
	case "":
		return nil
	case m.cfg.Election:
		return failed(ErrPermanent, "a group of shards has the name %[1]s: "+choose, group)
	default:
		return failed(ErrPermanent, "%[2]s is an election of the group of shards %[1]s: "+choose, group, m.cfg.Election)
	}
}

// groups returns the groups of shards beside which this election must not exist: a group with its
// name, and the group that may have a shard or an assigner whose election
// has this name. A member's own elections, of its shards and of the assigner, are part of their
// group, and not refused because of it.
func (m *machine) groups() []string {
	if m.ofMember {
		return nil
	}
	if group, is := protocol.GroupOf(m.cfg.Election); is {
		return []string{m.cfg.Election, group}
	}
	return []string{m.cfg.Election}
}
