package elector

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// machine is the state machine of one Run or Campaign. Its own fields belong to the
// goroutine that runs it; what it shares with others is the candidate's.
type machine struct {
	*candidate

	clock  *lease.Clock
	begun  lease.Stamp // when this Run or Campaign began, or what it is a part of
	memory *memory     // of the election: the machine before has left it

	cordonsAwaited bool // meet has waited for what the nodes show of cordons

	advertised string // what the lock of the newest term holds

	peers          *peers.Peers
	going          context.Context // ends when Run does, or Campaign's term
	pendingRelease <-chan error    // how a release ends that is repeated in the background; nil: none is

	trips int // how many terms in a row have ended as unhealthy or failed

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
	before.highest = max(before.highest, c.above)
	if !before.configLogged {
		before.configLogged = true
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
		m.awaitRecorded()
		m.become(RoleIdle, nil)
	}
	return m
}

// awaitRecorded holds up Run's end, for at most a quarter of a lease, until a majority of the nodes
// has recorded the end of the last term: the process may be gone after that, and the history
// would call the term vanished. Not when the lock could not even be released.
func (m *machine) awaitRecorded() {
	term := m.term.Load()
	if m.memory.reported == nil || term == nil || term.unreleased != nil {
		return
	}
	began, limit := time.Now(), m.cfg.Lease/4
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-m.memory.reported: // the requests have been started
		m.voter.AwaitRecorded(limit - time.Since(began))
	case <-timer.C:
	}
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

// supervised names a term for the supervisor of this process.
func (m *machine) supervised(t *Term) supervised.Term {
	return supervised.Term{
		Prefix: m.election.Prefix(), Election: m.cfg.Election, Candidate: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.advertised,
		Attempt: m.voter.Attempt(), Token: t.token, Nodes: m.nodes.Len(), Lease: m.cfg.Lease, CallTimeout: m.timing.CallTimeout(),
	}
}

// heir is the candidate for which the nodes reserve leadership when this term ends.
func (m *machine) heir(t *Term) protocol.Heir {
	to := m.peers.Heir()
	if h := t.handTo.Load(); h != nil && (h.to != "" || h.cold) {
		to = h.to
	}
	if to == "" {
		return protocol.Heir{}
	}
	return protocol.Heir{Incarnation: to, Keep: m.reservedFor()}
}

// memory is what a candidate remembers of its election. Each machine leaves it to the
// next one: a candidate that has led before must not take a loss of data for the first
// start.
type memory struct {
	highest          uint64      // the highest counter or token seen on any node
	traced           bool        // a node has shown a trace of an earlier election, or this candidate has won one
	answeredAt       lease.Stamp // when the nodes answered last, to a claim or a look; zero: never
	answered         bool        // a majority has answered before
	twinLogged       bool        // another process with our id was logged
	abstentionLogged bool        // logged that nodes abstain
	foreignVersion   string      // what the version's key holds that was logged
	configLogged     bool        // logged the configuration

	differs     string      // the attempt that was last seen to vote with other nodes
	differsFrom lease.Stamp // when it was first seen

	holderSeen lease.Stamp   // when the nodes showed last that another candidate leads; zero: never
	holderAge  time.Duration // how long before that it had renewed its lease, at most

	// reported is closed when the end of the last term was announced: the next election is
	// announced after it. Nil: there was no term.
	reported <-chan struct{}
}

// learn takes what a tally shows of tokens. A counter above zero, a holder or a
// pause is a trace of the election; a node that has lost everything has none.
func (k *memory) learn(t quorum.Tally) {
	for _, a := range t.Answers {
		k.highest = max(k.highest, a.Fence)
		k.traced = k.traced || a.Fence > 0 || a.Status == protocol.Held || a.Status == protocol.Paused || a.Status == protocol.Reserved
	}
}

// keepsDiffering reports whether a lock with another list of nodes was met at each claim for
// longer than late messages of one attempt may keep it up: two and a half leases.
func (k *memory) keepsDiffering(clock *lease.Clock, holder string, life time.Duration) bool {
	attempt, _, _ := strings.Cut(holder, " ")
	if k.differs != attempt {
		k.differs, k.differsFrom = attempt, clock.Now()
		return false
	}
	held, ok := clock.Since(k.differsFrom)
	return ok && held > 5*life/2
}

// sawLeader takes that another candidate leads, and for how long its lease lasts still.
func (k *memory) sawLeader(now lease.Stamp, life, left time.Duration) {
	k.holderSeen, k.holderAge = now, max(0, life-left)
}

// vacant is for how long at most there has been no leader; zero: not known. A leader that
// disappears reports nothing, but it was there when it renewed its lease.
func (k *memory) vacant(clock *lease.Clock) time.Duration {
	if k.holderSeen.IsZero() {
		return 0
	}
	since, ok := clock.Since(k.holderSeen)
	if !ok {
		return 0
	}
	return since + k.holderAge
}
