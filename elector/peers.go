package elector

import (
	"cmp"
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// self is the candidate as package peers sees it: a peers.Self.
type self struct{ c *candidate }

func newPeers(c *candidate) *peers.Peers {
	return peers.New(peers.Config{
		Channel: c.election.channel(), Self: self{c}, Go: c.voter.Go, NotSubscribed: c.logNotSubscribed, OtherVersion: c.logOtherVersion,
		ID: c.cfg.ID, Incarnation: c.incarnation, Order: peers.Order(c.cfg.Succession),
		Lease: c.cfg.Lease, RenewEvery: c.timing.RenewEvery(), RetryEvery: c.timing.RetryEvery(), CallTimeout: c.timing.CallTimeout(),
	})
}

func (s self) Info() CandidateStatus {
	c, now := s.c, s.c.published.read()
	role := now.role
	info := CandidateStatus{
		ID: c.cfg.ID, Incarnation: c.incarnation, Advertise: c.cfg.Advertise, Version: c.cfg.Version,
		Role: role, Probes: c.probes.names(), Priority: c.cfg.Priority, Lease: c.cfg.Lease, Succession: cmp.Or(string(c.cfg.Succession), "race"),
	}
	if t := c.term.Load(); t != nil && (role == roleLeading || role == roleStopping) {
		info.Token = t.token
	}
	names, states := c.nodes.Names(), c.counters.states()
	for i, id := range c.voter.Identities().ByNode(len(names)) {
		n := VotingNode{Name: names[i], Identity: id, SilentFor: states[i].silentFor}
		if refusal := states[i].refusal; refusal != nil {
			n.Refusal, n.Remedy = protocol.Clip(refusal.Answer(), peers.MaxRefusal), protocol.Clip(refusal.Advice(), peers.MaxRemedy)
		}
		info.Nodes = append(info.Nodes, n)
	}
	err := c.check()
	if role == roleIdle { // it is about to campaign
		err = c.probes.failing()
	}
	if err != nil {
		info.Detail = err.Error()
	}
	if info.Healthy = err == nil; info.Healthy {
		info.HealthyFor = time.Since(c.ableSince())
	}
	info.Unable = !info.Healthy && c.probes.failing() == nil
	if role == roleResting {
		info.RestFor, info.RestReason = max(0, time.Until(now.restUntil)), now.restWhy
	}
	return info
}

func (s self) Leading() (token uint64, ok bool) {
	if t := s.c.validTerm(); t != nil {
		return t.token, true
	}
	return 0, false
}

func (s self) HandOver(token uint64, to string, why error) {
	if t := s.c.validTerm(); t != nil && t.token == token {
		t.HandOver(to, why)
	}
}

func (s self) Yieldable(ctx context.Context) error { return s.c.handoverBlocked(ctx) }

func (s self) IsPaused() bool { return s.c.isPaused() }

func (s self) ReadPause(ctx context.Context) {
	if st, err := s.c.election.Status(ctx); err == nil {
		s.c.setPaused(st.pauseNote)
	}
}
