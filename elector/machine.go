package elector

import (
	"context"
	"log/slog"
	"sync"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// machine is the state machine of one Run or Campaign. Its own fields belong to the
// goroutine that runs it; what it shares with others is the candidate's.
type machine struct {
	*candidate

	clock  *lease.Clock
	begun  lease.Stamp // when this Run or Campaign began, or what it is a part of
	memory *memory     // of the election: the machine before has left it

	acquainted bool // meet has waited for what the nodes show of cordons

	advertised string // what the lock of the newest term holds

	peers *peers.Peers
	going context.Context // ends when Run does, or Campaign's term
	owed  <-chan error    // how a release ends that is repeated in the background; nil: none is

	leave func() // ends what newMachine started, and waits for it
}

// newMachine starts what accompanies being a candidate, until leave is called. Until then
// the memory is the machine's.
func newMachine(ctx context.Context, c *candidate, before *memory) *machine {
	m := &machine{candidate: c, clock: c.hostClock, memory: before, begun: c.since}
	if own := lease.ClockFrom(ctx); own != nil {
		m.clock = own
	}
	if m.begun.IsZero() {
		m.begun = m.clock.Now()
	}
	if !before.introduced {
		before.introduced = true
		c.introduce()
	}
	m.peers = newPeers(c)
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.going = going
	var wg sync.WaitGroup
	if m.probes.candidate != nil {
		wg.Go(func() { m.probes.run(going) })
	}
	unfollow := c.followCordons(m.peers.RoleChanged)
	m.peers.Start(going)
	m.leave = func() {
		cancel()
		m.peers.Stop()
		unfollow()
		wg.Wait()
		// A hung node must not hold up the caller; what is under way to it is
		// bounded by the call time-out, and harmless.
		m.voter.WaitIdle(standby.FrontRowLead + m.timing.RetryEvery())
		m.become(RoleIdle, nil)
	}
	return m
}

// become is the one setter of the role. It logs the change and reports it to the
// observers; it never blocks.
func (m *machine) become(r Role, ev *Event, attrs ...slog.Attr) {
	m.mu.Lock()
	old := m.role
	allowed := old == r
	for _, next := range leadsTo[old] {
		allowed = allowed || next == r
	}
	if !allowed {
		m.mu.Unlock()
		panic("elector: from " + string(old) + " to " + string(r)) // a bug of ours
	}
	m.role = r
	m.mu.Unlock()
	m.peers.RoleChanged()
	if old != r {
		level := slog.LevelInfo
		if r == RoleStopping && ev != nil && !ev.Reason.Wanted() {
			level = slog.LevelWarn
		}
		m.log.LogAttrs(context.Background(), level, string(r), attrs...) //nolint:sloglint // one of the constants above
	}
	if ev != nil {
		m.subscribers.publish(*ev)
	}
}

// termEvent describes a change of a term; ended is nil while it lasts.
func (m *machine) termEvent(k EventKind, t *Term, ended *Ended) Event {
	ev := m.event(k, "")
	ev.Token, ev.Advertise = t.token, m.advertised
	if ended != nil {
		ev.Reason, ev.Detail = ended.Reason, ended.detail()
	}
	return ev
}

// heir is the candidate for which the nodes reserve leadership when this term ends.
func (m *machine) heir(t *Term) quorum.Heir {
	to := m.peers.Heir()
	if h := t.handTo.Load(); h != nil && h.to != "" {
		to = h.to
	}
	if to == "" {
		return quorum.Heir{}
	}
	return quorum.Heir{Incarnation: to, Keep: m.reservedFor()}
}
