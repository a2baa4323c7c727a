package elector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// How an election works
//
// One goroutine owns a candidate and runs its state machine, from Run's call to its return; a campaigned
// term has a goroutine of its own. The machine takes these roles:
//
//	idle ───► following ───► leading ───► stopping ───► resting
//	 ▲          │   ▲                        │             │
//	 └──────────┤   └────────────────────────┼─────────────┤
//	            └────────────────────────────┴─────────────┘
//
//	following   claims when package standby says so, until a majority grants one token (campaign.go, claim.go)
//	leading     the work runs; the lease is renewed while the probes pass (leader.go, renew.go)
//	stopping    the term is over, and the work's context with it; after a resignation, a hand-over or a shutdown the lease is
//	            renewed meanwhile (drain, in leader.go); when the work has returned, the lock is released (release.go)
//	resting     this candidate was to blame, or has handed over: others go first
//	idle        Run and Campaign have returned, or never began
//
// To a term belong its token, lease (grant), context, work, renewals, the work's probe and the timers of deadline and
// MaxTerm: start begins them, and the next term has others. A Run owns the candidate's probe and its peers; the memory
// of the election outlives it. What fails, and what follows:
//
//	a probe                the term ends at once; the lock is released when the work has returned, and others go first
//	a minority of nodes    nothing: a majority confirms the renewal; a node that is back gets the lock with the next one
//	a majority of nodes    renewals are tried again until the deadline; the term ends by the clock, before the lock lapses
//	the data of nodes      they abstain for a lease; if a majority has lost it, the term ends
//	this process           suspended: no renewal leaves after the deadline, and IsLeader reads the clock; killed: the lock lapses
//	the work               an error ends Run; while it does not return the lock is not released: it lapses (an overrun)
//
// Requests go down: machine, then package quorum (one round over n nodes: has a majority answered?), then
// protocol's scripts on each node. Answers come up as values, and package lease says until when they make
// the term valid. The probes (package health) are checked before each renewal, and once more just before its
// requests leave.
//
// The way of a renewal:
//
//  1. await (leader.go): the timer fires
//  2. renew (renew.go) checks the probes and sends: no other function begins one (RenewAgain repeats it)
//  3. quorum/renewal.go: a request for each node
//  4. nodes/send.go: the last check whether it may leave; one call carries it, with those of other elections
//  5. protocol/scripts/renew.lua: the node prolongs the lock
//  6. await: the nodes' answers come on one channel
//  7. quorum/round.go: what a majority answered
//  8. renew.go, then lease/grant.go: the lease is extended
//
// A claim takes the same way by quorum/claim.go, but blocks the machine until it is decided; package standby
// says when a follower claims, claim.go what the answers mean.
//
// Messages from candidates and operators (pubsub, peers) are hints: one can make a candidate query Redis
// sooner or later than planned, or answer; it can make a leader name another heir, or end its own term.
//
// Other goroutines: the work of a term (never killed: only its return frees the lock); the timers of deadline
// and MaxTerm; the probes; peers (until leave); polls and late releases (each bounded by a time-out); calls to
// the nodes (nodes/send.go); subscriptions (pubsub: a reader and a writer per node and Quorum); log lines.
// A field belongs to the machine unless its comment names a mutex or it is atomic. What others may know of a
// candidate is in published.go, behind one mutex.

// candidate is what every goroutine may use: the messages of others, operators, the embedding program.
type candidate struct {
	// Set by New; they never change.
	cfg         Config
	timing      lease.Timing
	nodes       *nodes.Nodes
	bus         *pubsub.Bus
	keys        *protocol.Keys
	incarnation string
	election    *Election    // as operators see it, with what this candidate adds
	hostClock   *lease.Clock // of this host
	log         *slog.Logger
	logged      *lines           // what log has not written yet
	supervisor  *supervised.Pipe // of this process; nil: none

	// Safe for concurrent use.
	published    published // what other goroutines may know of this candidate
	subscribers  subscribers
	counters     *counters
	probes       probes                         // failing and fit; the rest belongs to the state machine
	voter        *quorum.Voter                  // Identities and Go; the rest belongs to the state machine
	running      atomic.Bool                    // Run, Campaign or a term of Campaign is; its goroutine owns the machine
	claimWanted  chan struct{}                  // signaled by ClaimNow
	term         atomic.Pointer[Term]           // the newest term, also an ended one
	standsBy     atomic.Pointer[standby.Waiter] // while it campaigns
	paused       lasting                        // what was logged of a pause
	handovers    lasting                        // what was logged of why this leader does not hand over
	unsubscribed atomic.Bool                    // logged that releases are not received
	unrecorded   atomic.Bool                    // logged that a node does not record events in its history
	otherVersion atomic.Bool                    // logged that messages have another protocol
}

// machine is the state machine of Run and Campaign. One goroutine at a time runs it, that of Run's caller or
// of a campaigned term, and owns its state.
type machine struct {
	candidate

	// Of this Run or Campaign.
	ctx      context.Context // ends when it does
	cancel   context.CancelFunc
	done     func() // lets the Quorum be closed
	clock    *lease.Clock
	begun    lease.Stamp // when it began, or the member of a group that runs it
	ofMember bool        // a member of a group of shards runs it
	peers    *peers.Peers
	probing  sync.WaitGroup // the goroutine of the candidate's probe
	badEnds  int            // of its newest terms: those in a row that ended by the work or its probe, without a good one between them

	memory      memory       // of the election
	troubled    lasting      // what was logged of why this candidate cannot campaign or renew
	serving     *Term        // the term that it serves, or served last
	renewal     renewal      // of that term
	outcome     *outcome     // of its work, set when that has returned
	dataLost    bool         // it ended because a majority of the nodes had lost all their data of the election, and no node has shown another
	lateRelease <-chan error // gets the outcome of a release that is retried in the background; nil: there is none
}

// enter begins a Run or Campaign, and starts the goroutines that accompany it: the candidate's probe and
// its peers. They run until leave.
func (m *machine) enter(ctx context.Context) {
	m.clock = cmp.Or(lease.ClockFrom(ctx), m.hostClock)
	if m.begun, m.ofMember = lease.BeginFrom(ctx); !m.ofMember {
		m.begun = m.clock.Now()
	}
	m.badEnds = 0
	if !m.memory.configLogged { // it explains much of what is logged later; the names of nodes have no passwords
		m.memory.configLogged = true
		m.log.Info("starting", "version", m.cfg.Version, "nodes", strings.Join(m.nodes.Names(), " "), "prefix", m.keys.Prefix(),
			"lease", m.cfg.Lease.String(), "stop_margin", m.cfg.StopMargin.String(), "probes", strings.Join(m.probes.names(), " "),
			"succession", cmp.Or(m.cfg.Succession, "race"))
	}
	m.peers = newPeers(&m.candidate)
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if m.probes.candidate != nil {
		m.probing.Go(func() { m.probes.report(m.probes.candidate.Run(m.ctx)) })
	}
	m.peers.Start(m.ctx)
}

// leave stops what enter started, and waits for it.
func (m *machine) leave() {
	m.cancel()
	m.peers.Stop()
	m.probing.Wait()
	// A hung node must not hold up the caller; the requests to it are
	// bounded by the call time-out, and harmless.
	m.voter.WaitIdle(m.timing.RetryEvery())
	m.become(roleIdle, nil)
	m.logged.flush(m.timing.CallTimeout())
	m.done()
	m.running.Store(false)
}

// run campaigns, leads and rests in a loop, until ctx ends or an error ends the candidacy.
//
// A candidate spends nearly all its time blocked in campaign or lead, and a process may have ten
// thousand candidates. So code that needs much stack for a moment is in functions that have returned
// by then: a large frame below the wait could double the stack of each of these goroutines.
func (m *machine) run(ctx context.Context, work Work) error {
	for {
		term, err := m.campaign(ctx, false)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil //nolint:nilerr // shutdown is how Run ends well
		case err != nil:
			return err
		}
		m.start(term, work)
		if over, err := m.after(ctx, m.lead(ctx)); over {
			return err
		}
	}
}

// after rests after a term if that is due, or reports that Run is over, and with which error.
func (m *machine) after(ctx context.Context, ended *Ended) (over bool, err error) {
	term := m.serving
	close(term.over)
	if m.outcome.fatal {
		select {} // Run must not return: main could end the process well before the panic does
	}
	switch {
	case ended.Reason == ReasonPanicked, ended.Reason == ReasonFailed && !errors.As(ended.Err, new(*RestartError)):
		return true, ended.Err
	case ctx.Err() != nil:
		return true, term.unreleased // shutdown is how Run ends well
	}
	if d := m.restAfter(ended.Reason); d > 0 {
		if ended.Reason == ReasonFinished && m.badEnds == 2 { // not after a single short job
			m.log.Warn("work returned early, twice in a row: it must run until its context ends")
		}
		m.rest(ctx, d, ended)
	}
	return false, nil
}

// runError returns what Run returns when run has returned err. It waits for a release that is still being
// retried in the background. One that failed earlier is ignored: its lock has lapsed, which was logged,
// and others may have led since.
func (m *machine) runError(ctx context.Context, err error) error {
	lateRelease := m.lateRelease
	m.lateRelease = nil
	if err == nil && lateRelease != nil && len(lateRelease) == 0 {
		err = <-lateRelease
	}
	if errors.Is(context.Cause(ctx), ErrClosed) && !errors.Is(err, ErrClosed) {
		return errors.Join(ErrClosed, err)
	}
	return err
}

// restAfter returns the pause before the next campaign. It doubles with each bad end in a row: otherwise
// work that exits at once would be started again and again without a bound.
func (m *machine) restAfter(r Reason) time.Duration {
	again := m.badEnds - 1
	switch r {
	case ReasonUnhealthy:
		return m.cfg.Cooldown << min(again, 4)
	case ReasonResigned, ReasonHandover:
		return m.cfg.Cooldown
	case ReasonFinished, ReasonFailed:
		return m.cfg.Lease / 10 << min(again, 7)
	default: // nothing was wrong with this candidate: it campaigns again at once
		return 0
	}
}

// countBadEnd counts the end of a term. A term of more than four leases was a good one.
func (m *machine) countBadEnd(r Reason, led time.Duration) {
	if led > 4*m.cfg.Lease {
		m.badEnds = 0
	}
	switch r {
	case ReasonUnhealthy, ReasonFailed, ReasonFinished:
		m.badEnds++
	default:
		m.badEnds = 0
	}
}

// rest blocks for d after a term, or until ctx ends.
func (m *machine) rest(ctx context.Context, d time.Duration, after *Ended) {
	m.published.update(func(s *state) { s.restUntil, s.restWhy = time.Now().Add(d), after.summary() })
	m.become(roleResting, nil, slog.String("for", unit(d)))
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	m.away(ctx, nil)
}

// away blocks until ctx ends or a value comes on wake. As this candidate does not claim meanwhile, it
// polls the election once per lease: with knowledge older than a leader's lease it would mistake a loss
// of data for a first start. Nodes that hang do not delay it.
func (m *machine) away(ctx context.Context, wake <-chan struct{}) {
	due := time.NewTimer(m.pollDue())
	defer due.Stop()
	var polled chan []NodeStatus // gets the result of the poll that is under way
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			return
		case <-due.C:
			views := make(chan []NodeStatus, 1) // buffered, because nobody reads a result that comes too late
			polled = views
			m.voter.Go(func() { views <- readNodes(context.Background(), m.nodes, m.keys, m.timing.CallTimeout(), nil) })
		case views := <-polled:
			due.Reset(m.readPoll(views))
		}
	}
}

// pollDue returns the time to the next poll: a lease after the nodes last answered.
func (m *machine) pollDue() time.Duration {
	elapsed, ok := m.clock.Since(m.memory.answeredAt)
	if m.memory.answeredAt.IsZero() || !ok {
		return 0
	}
	return max(0, m.cfg.Lease-elapsed)
}

// readPoll records what the nodes answered, and returns the time to the next poll: it is soon if no
// majority has answered, as a claim would be.
func (m *machine) readPoll(views []NodeStatus) time.Duration {
	for _, n := range views {
		m.memory.sawNode(n.Fence, n.Lock != "" || n.Foreign != "" || n.pause != "")
	}
	if len(views)-len(errorsOf(views)) < m.nodes.Majority() {
		return m.cfg.Lease / 4
	}
	m.voter.Keep()
	m.noteLocks(locksOf(views))
	m.bus.Check(standby.TestEvery*m.cfg.Lease, m.timing.CallTimeout())
	return m.cfg.Lease
}

// The roles, in the order in which a candidate takes them. Only machine.become
// changes the role.
const (
	roleIdle      = "idle"          // not a candidate: Run and Campaign are not running
	roleFollowing = peers.Following // campaigning, or waiting while another leads
	roleLeading   = peers.Leading   // serving a term
	roleStopping  = peers.Stopping  // the term has ended, its work has not returned yet
	roleResting   = "resting"       // cooling down before the next campaign
)

// leadsTo lists the roles that may follow each role.
var leadsTo = map[string][]string{
	roleIdle:      {roleFollowing},
	roleFollowing: {roleLeading, roleIdle},
	roleLeading:   {roleStopping},
	roleStopping:  {roleResting, roleFollowing, roleIdle},
	roleResting:   {roleFollowing, roleIdle},
}

// become is the only function that sets the role. It logs the change and reports ev to the
// observers; it never blocks.
func (m *machine) become(r string, ev *Event, attrs ...slog.Attr) {
	old := m.published.update(func(s *state) { s.role = r }).role
	if old != r && !slices.Contains(leadsTo[old], r) {
		panic("elector: from " + old + " to " + r) // a bug in this package
	}
	m.peers.RoleChanged()
	if old != r {
		level := slog.LevelInfo
		if r == roleStopping && ev != nil && !ev.Reason.Wanted() {
			level = slog.LevelWarn
		}
		if ev != nil && ev.Reason == ReasonExpired && m.overload() != nil { // in one line for all elections
			level = slog.LevelDebug
		}
		m.log.LogAttrs(context.Background(), level, r, attrs...) //nolint:sloglint // one of the constants above
	}
	if ev != nil {
		m.subscribers.publish(*ev)
	}
}

// event returns an event of this candidate. t and ended are nil for one that is not about a term, or not
// about its end.
func (m *machine) event(kind string, t *Term, ended *Ended) Event {
	ev := Event{
		Version: eventVersion, Kind: kind, Election: m.cfg.Election, Candidate: m.cfg.ID, Incarnation: m.incarnation,
		Advertise: m.cfg.Advertise, Time: time.Now().Round(0),
	}
	if t != nil {
		ev.Token = t.token
	}
	if ended != nil {
		ev.Reason, ev.Detail = ended.Reason, ended.detail()
	}
	return ev
}

func (m *machine) supervised(t *Term) supervised.Term {
	return supervised.Term{
		Prefix: m.keys.Prefix(), Election: m.cfg.Election, Candidate: m.cfg.ID, Incarnation: m.incarnation, Advertise: m.cfg.Advertise,
		Attempt: m.voter.Attempt(), Token: t.token, Nodes: m.nodes.Len(), Lease: m.cfg.Lease, CallTimeout: m.timing.CallTimeout(),
	}
}
