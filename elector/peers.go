package elector

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// self is the candidate as package peers sees it: a peers.Self.
type self struct{ c *candidate }

func newPeers(c *candidate) *peers.Peers {
	return peers.New(peers.Config{
		Channel: peers.Channel{Nodes: c.nodes, Bus: c.bus, Keys: c.keys, Election: c.cfg.Election},
		Self:    self{c}, Go: c.voter.Go, NotSubscribed: c.logNotSubscribed, OtherVersion: c.logOtherVersion,
		Incarnation: c.incarnation, Order: peers.Order(c.cfg.Succession),
		Lease: c.cfg.Lease, RenewEvery: c.timing.RenewEvery(), RetryEvery: c.timing.RetryEvery(), CallTimeout: c.timing.CallTimeout(),
	})
}

func (s self) Info() peers.Candidate {
	c, now := s.c, s.c.published.read()
	role := now.role
	info := peers.Candidate{
		ID: c.cfg.ID, Incarnation: c.incarnation, Advertise: c.cfg.Advertise, Version: c.cfg.Version,
		Role: role, Probes: c.probes.names(), Priority: c.cfg.Priority, Lease: c.cfg.Lease, Succession: cmp.Or(c.cfg.Succession, "race"),
	}
	if t := c.term.Load(); t != nil && (role == roleLeading || role == roleStopping) {
		info.Token = t.token
	}
	info.Nodes = c.counters.votesWith(c.voter.Identities().ByNode(c.nodes.Len()))
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
	nodes, majority := readNodes(ctx, s.c.nodes, s.c.keys, statusTimeout, nil), s.c.nodes.Majority()
	if len(nodes)-len(errorsOf(nodes)) >= majority {
		note, _ := pauseOf(nodes, majority)
		s.c.setPaused(note)
	}
}

// takesLock tries, with a write, whether a majority of the nodes would let a candidate take the
// lock. It returns ErrRefused when no majority takes the write and a node answers that it refuses
// writes.
func takesLock(ctx context.Context, ns *nodes.Nodes, keys protocol.Keys, limit time.Duration) error {
	took := 0
	var refusing []error
	for _, err := range ns.TryWrite(ctx, &keys, limit) {
		switch {
		case err == nil, rediserr.Denied(err): // the candidates' user may have the right
			took++
		case rediserr.Answered(err):
			refusing = append(refusing, err)
		}
	}
	if took >= ns.Majority() || len(refusing) == 0 {
		return nil
	}
	return newRefusal("no other leader could be elected: %d of %d Redis nodes refuse writes (%s)", len(refusing), ns.Len(), strings.TrimRight(refusing[0].Error(), "."))
}

// handoverBlocked returns why this leader must not hand over because of MaxTerm or a candidate with a higher
// priority: the election is paused, or nodes refuse writes. Such nodes let the leader
// renew and release its lock, but let no candidate take it: the election would have no leader until
// an operator frees memory or disk space. handoverBlocked queries the nodes; nil: the leader may hand over.
func (c *candidate) handoverBlocked(ctx context.Context) error {
	if c.isPaused() {
		return ErrRefused
	}
	err := takesLock(ctx, c.nodes, *c.keys, c.timing.CallTimeout())
	what := ""
	if err != nil {
		what = "refused"
	}
	c.handovers.note(c.log, handingOver, what, time.Now(), "error", err)
	return err
}
