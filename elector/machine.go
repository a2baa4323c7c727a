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
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// machine is the state machine of one Run or Campaign. Its own fields belong to the
// goroutine that runs it; what it shares with other goroutines is in candidate.
type machine struct {
	*candidate

	clock    *lease.Clock
	begun    lease.Stamp // when this Run or Campaign began, or the member of a group that runs it
	ofMember bool        // a member of a group of shards runs it
	memory   *memory     // of the election, passed on by the machine before

	advertised string // the address in the lock of the newest term

	peers          *peers.Peers
	runCtx         context.Context // ends when Run does, or Campaign's term
	pendingRelease <-chan error    // gets the outcome of a release that is retried in the background; nil: there is none

	failuresInRow int // how many terms in a row have ended as unhealthy or failed

	leave func() // stops what newMachine started, and waits for it
}

// newMachine makes a machine and starts the goroutines that accompany it: the candidate's probe and
// its peers. They run until leave is called. The memory belongs to the machine until then.
func newMachine(ctx context.Context, c *candidate, before *memory) *machine {
	m := &machine{candidate: c, clock: c.hostClock, memory: before}
	if own := lease.ClockFrom(ctx); own != nil {
		m.clock = own
	}
	if m.begun, m.ofMember = lease.BeginFrom(ctx); !m.ofMember {
		m.begun = m.clock.Now()
	}
	if !before.configLogged {
		before.configLogged = true
		c.introduce()
	}
	m.peers = newPeers(c)
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.runCtx = going
	var wg sync.WaitGroup
	if m.probes.candidate != nil {
		wg.Go(func() { m.probes.run(going) })
	}
	m.peers.Start(going)
	m.leave = func() {
		cancel()
		m.peers.Stop()
		wg.Wait()
		// A hung node must not hold up the caller; the requests to it are
		// bounded by the call time-out, and harmless.
		m.voter.WaitIdle(recordDelay + m.timing.RetryEvery())
		m.awaitRecorded()
		m.become(roleIdle, nil)
	}
	return m
}

// awaitRecorded blocks, at the end of Run, until a majority of the nodes has recorded the end of the
// last term, for at most a quarter of a lease: the process may exit after Run, and the history
// would report the term as vanished. It does not wait if the lock could not even be released.
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

// become is the only function that sets the role. It logs the change and reports ev to the
// observers; it never blocks.
func (m *machine) become(r string, ev *Event, attrs ...slog.Attr) {
	m.mu.Lock()
	old := m.role
	allowed := old == r
	for _, next := range leadsTo[old] {
		allowed = allowed || next == r
	}
	if !allowed {
		m.mu.Unlock()
		panic("elector: from " + old + " to " + r) // a bug in this package
	}
	m.role = r
	m.mu.Unlock()
	m.peers.RoleChanged()
	if old != r {
		level := slog.LevelInfo
		if r == roleStopping && ev != nil && !ev.Reason.Wanted() {
			level = slog.LevelWarn
		}
		m.log.LogAttrs(context.Background(), level, r, attrs...) //nolint:sloglint // one of the constants above
	}
	if ev != nil {
		m.subscribers.publish(*ev)
	}
}

// termEvent returns the event for a change of a term; ended is nil while the term lasts.
func (m *machine) termEvent(k string, t *Term, ended *Ended) Event {
	ev := m.event(k, "")
	ev.Token, ev.Advertise = t.token, m.advertised
	if ended != nil {
		ev.Reason, ev.Detail = ended.Reason, ended.detail()
	}
	return ev
}

// supervised describes a term to the supervisor of this process.
func (m *machine) supervised(t *Term) supervised.Term {
	return supervised.Term{
		Prefix: m.election.Prefix(), Election: m.cfg.Election, Candidate: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.advertised,
		Attempt: m.voter.Attempt(), Token: t.token, Nodes: m.nodes.Len(), Lease: m.cfg.Lease, CallTimeout: m.timing.CallTimeout(),
	}
}

// heir returns the candidate for which the nodes reserve leadership when this term ends.
func (m *machine) heir(t *Term) protocol.Heir {
	to := m.peers.Heir()
	if h := t.handTo.Load(); h != nil && h.to != "" {
		to = h.to
	}
	if to == "" {
		return protocol.Heir{}
	}
	return protocol.Heir{Incarnation: to, Keep: m.reservedFor()}
}

// memory is what a candidate remembers of its election. Each machine passes it on to the
// next one: a candidate that has led before must not mistake a loss of data for the first
// start of the election.
type memory struct {
	highest          uint64      // the highest counter or token seen on any node
	traced           bool        // a node has shown a trace of an earlier election, or this candidate has won one
	answeredAt       lease.Stamp // when a majority last answered a claim or a poll; zero: never
	answered         bool        // a majority has answered a claim before
	twinLogged       bool        // logged that another process has this candidate's id
	abstentionLogged bool        // logged that nodes abstain
	configLogged     bool        // logged the configuration

	differs     string      // the attempt that was last seen to vote with other nodes
	differsFrom lease.Stamp // when that attempt was first seen

	holderSeen lease.Stamp   // when the nodes last showed that another candidate leads; zero: never
	holderAge  time.Duration // how long before holderSeen that leader had renewed its lease, at most

	// reported is closed when the end of the last term has been announced: the next election is
	// announced only after that. Nil: there was no term.
	reported <-chan struct{}
}

// learn records the highest token in a tally, and whether the tally shows a trace of the election: a
// counter above zero, a holder, a pause or a reservation. A node that has lost everything shows none.
func (k *memory) learn(t quorum.Tally) {
	for _, a := range t.Answers {
		k.highest = max(k.highest, a.Fence)
		k.traced = k.traced || a.Fence > 0 || a.Status == protocol.Held || a.Status == protocol.Paused || a.Status == protocol.Reserved
	}
}

// keepsDiffering reports whether each claim has met a lock of the same attempt with another list of
// nodes for more than two and a half leases. Requests that arrive late can't keep a lock for so long.
func (k *memory) keepsDiffering(clock *lease.Clock, holder string, life time.Duration) bool {
	attempt, _, _ := strings.Cut(holder, " ")
	if k.differs != attempt {
		k.differs, k.differsFrom = attempt, clock.Now()
		return false
	}
	held, ok := clock.Since(k.differsFrom)
	return ok && held > 5*life/2
}

// sawLeader records that another candidate leads, and how much of its lease is left.
func (k *memory) sawLeader(now lease.Stamp, life, left time.Duration) {
	k.holderSeen, k.holderAge = now, max(0, life-left)
}

// vacant returns for how long there has been no leader, at most; zero: not known. A leader that
// disappears reports nothing, but it was alive when it last renewed its lease.
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

// The roles, in the order in which a candidate takes them. Only machine.become
// changes the role.
const (
	roleIdle      = "idle"      // not a candidate: Run and Campaign are not running
	roleFollowing = "following" // campaigning, or waiting while another leads
	roleLeading   = "leading"   // serving a term
	roleStopping  = "stopping"  // the term has ended, its work has not returned yet
	roleResting   = "resting"   // cooling down before the next campaign
	roleObserving = "observing" // Config.Observer: it follows, and never campaigns
)

// leadsTo lists the roles that may follow each role.
var leadsTo = map[string][]string{
	roleIdle:      {roleFollowing, roleObserving},
	roleFollowing: {roleLeading, roleIdle},
	roleLeading:   {roleStopping},
	roleStopping:  {roleResting, roleFollowing, roleIdle},
	roleResting:   {roleFollowing, roleIdle},
	roleObserving: {roleIdle},
}
