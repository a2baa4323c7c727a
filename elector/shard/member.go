package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/health"
)

// Member is one member of a group. Safe for concurrent use; it owns shards while Run runs.
type Member struct {
	cfg         Config
	quorum      *elector.Quorum
	nodes       *quorum.Nodes
	bus         *pubsub.Bus
	store       *group.Store
	probe       *health.Runner // of Config.Probe; nil: always healthy
	incarnation string
	running     atomic.Bool
	silent      atomic.Bool  // no majority of the nodes answers
	far         atomic.Bool  // none answers within the time that an assigner has
	blindUntil  atomic.Int64 // as the assigner it could not see the members; Unix ns
	gate        gate
	warms       warms

	mu     sync.Mutex // of all below
	owned  map[int]*Term
	plan   *group.Plan // the one in force; nil: none was seen yet
	owners []int       // by shard, an index of plan.Members

	changed chan struct{} // closed by the next change; nil: there is no observer
}

// Owner is a member that owns a shard.
type Owner struct {
	ID        string
	Advertise string
}

// New makes a member. It does no I/O. The error is an *elector.ConfigError that lists every
// problem of the configuration.
func New(q *elector.Quorum, cfg Config) (*Member, error) {
	nodes, bus := inside.NodesOf(q), inside.BusOf(q)
	if nodes == nil {
		return nil, errors.New("shard: New: the quorum is nil: make one with elector.NewQuorum or elector.Open")
	}
	cfg = cfg.withDefaults()
	m := &Member{cfg: cfg, quorum: q, nodes: nodes, bus: bus, incarnation: rand.Text()[:16], owned: map[int]*Term{}}
	// What an election refuses is refused here, before Run.
	problems := cfg.validate()
	election := m.candidateConfig("any")
	if cfg.WorkProbe != nil { // not that of a shard: with wrong settings there may be none
		election.WorkProbe, election.WorkProbeSettings = health.Func(func(context.Context) error { return nil }), cfg.WorkProbeSettings
	}
	election.Lease = max(election.Lease, minLease) // it was checked
	_, err := elector.New(q, election)
	if err := inside.ConfigError("shard: ", append(problems, err)...); err != nil {
		return nil, err
	}
	m.store = group.NewStore(nodes, q.Prefix(), cfg.Group, cfg.aliveFor(), cfg.remembered(), cfg.requestTimeout())
	m.gate.nodes, m.gate.store, m.gate.again = nodes, m.store, cfg.beatEvery()/8
	m.gate.recent = newRecent(nodes.Len(), cfg.beatEvery())
	if cfg.Probe != nil {
		if m.probe, err = health.NewRunner(cfg.Probe, cfg.ProbeSettings); err != nil {
			return nil, fmt.Errorf("shard: Probe: %w", err)
		}
	}
	return m, nil
}

func (m *Member) shardConfig(shard int) elector.Config {
	c := m.candidateConfig(ElectionOf(m.cfg.Group, shard))
	if m.cfg.WorkProbe != nil {
		c.WorkProbe, c.WorkProbeSettings = m.cfg.WorkProbe(shard), m.cfg.WorkProbeSettings
	}
	return c
}

// candidateConfig is what the candidates for all shards have in common.
func (m *Member) candidateConfig(election string) elector.Config {
	c := m.cfg.candidate(election, m.cfg.Lease)
	c.StopMargin, c.RestartDelay = m.cfg.StopMargin, m.cfg.RestartDelay
	if m.cfg.Probe != nil {
		// Checked once for all shards; here only its verdict is read.
		c.Probe = health.Func(func(context.Context) error { return health.Definite(m.unhealthy()) })
		c.ProbeSettings = health.Settings{Interval: m.cfg.beatEvery()}
	}
	return c
}

// unhealthy is why Config.Probe fails; nil: it does not.
func (m *Member) unhealthy() error {
	if m.probe == nil {
		return nil
	}
	st := m.probe.Status()
	switch {
	case st.Healthy:
		return nil
	case st.Err == nil:
		return errNotProbed
	default:
		return st.Err
	}
}

var errNotProbed = errors.New("the probe has not answered yet")

// ID is the member's name in the group.
func (m *Member) ID() string { return m.cfg.ID }

// Shards is how many shards the group has: fewer than Config.Shards until it has grown.
func (m *Member) Shards() int {
	if s := m.gate.settings.Load(); s != nil {
		return s.Shards
	}
	return m.cfg.Shards
}

// Lease is the lease of each shard.
func (m *Member) Lease() time.Duration { return m.cfg.Lease }

// Owned lists the shards that this member owns now, by the clock. No I/O.
func (m *Member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]int, 0, len(m.owned))
	for s, t := range m.owned {
		if t.Valid() {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return all
}

// Owner is who owns a shard, as the newest plan has it: what was owned when it was made, or
// else who is to own it. It is about as old as a round trip while nothing is wrong, and a
// hint at all times: the owner itself knows by its Term. False: no member, or not known yet.
// This member's own shards are known by the clock. No I/O.
func (m *Member) Owner(shard int) (Owner, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.owned[shard]; t != nil && t.Valid() {
		return Owner{ID: m.cfg.ID, Advertise: m.cfg.Advertise}, true
	}
	if shard < 0 || shard >= len(m.owners) || m.owners[shard] == group.NoMember {
		return Owner{}, false
	}
	pm := m.plan.Members[m.owners[shard]]
	return Owner{ID: pm.ID, Advertise: pm.Advertise}, true
}

// OwnerOf is the Owner of the shard to which a key belongs (ShardOf).
func (m *Member) OwnerOf(key string) (Owner, bool) { return m.Owner(m.ShardOf(key)) }

// ShardOf is the shard to which a key belongs.
func (m *Member) ShardOf(key string) int { return Of(key, m.Shards()) }

// log names the member in each line.
func (m *Member) log() *slog.Logger {
	return m.cfg.Logger.With("group", m.cfg.Group, "member", m.cfg.ID)
}

// changes is closed by the next change of an owner.
func (m *Member) changes() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// change wakes those that observe. The caller holds mu.
func (m *Member) change() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// own notes the begin of a term.
func (m *Member) own(t *Term) {
	m.mu.Lock()
	m.owned[t.Shard] = t
	m.change()
	m.mu.Unlock()
}

// disown notes that the work of a term has returned.
func (m *Member) disown(t *Term) {
	m.mu.Lock()
	if m.owned[t.Shard] == t {
		delete(m.owned, t.Shard)
		m.change()
	}
	m.mu.Unlock()
}

// noted is the plan in force, for Owner.
func (m *Member) noted(p *group.Plan, owners []int) {
	m.mu.Lock()
	m.plan, m.owners = p, owners
	m.change()
	m.mu.Unlock()
}

func hostname() string {
	host, _ := os.Hostname()
	return host
}
