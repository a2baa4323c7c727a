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

// Member is one member of a group. It owns shards while Run runs. Safe for concurrent use.
type Member struct {
	cfg             Config
	quorum          *elector.Quorum
	nodes           *quorum.Nodes
	bus             *pubsub.Bus
	store           *group.Store
	probe           *health.Runner // of Config.Probe; nil: always healthy
	incarnation     string
	running         atomic.Bool
	silent          atomic.Bool  // no majority of the nodes answers
	tooSlowToAssign atomic.Bool  // no majority answers within assignerTrip
	blindUntil      atomic.Int64 // no campaign as the assigner until then, Unix ns: it could not read the members
	warms           warms

	mu     sync.Mutex // guards all below
	owned  map[int]*Term
	plan   *group.Plan // the plan in force; nil: none was received yet
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
	// Report here, before Run, what elector.New would refuse.
	problems := cfg.validate()
	election := m.candidateConfig("any")
	if cfg.WorkProbe != nil { // a dummy: with wrong settings there may be no shard to call WorkProbe for
		election.WorkProbe, election.WorkProbeSettings = health.Func(func(context.Context) error { return nil }), cfg.WorkProbeSettings
	}
	election.Lease = max(election.Lease, minLease) // validate has checked it already
	_, err := elector.New(q, election)
	if err := inside.ConfigError("shard: ", append(problems, err)...); err != nil {
		return nil, err
	}
	m.store = group.NewStore(nodes, q.Prefix(), cfg.Group, cfg.aliveFor(), cfg.remembered(), cfg.requestTimeout())
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

// candidateConfig returns what the candidates for all shards have in common.
func (m *Member) candidateConfig(election string) elector.Config {
	c := m.cfg.candidate(election, m.cfg.Lease)
	c.StopMargin, c.RestartDelay = m.cfg.StopMargin, m.cfg.RestartDelay
	if m.cfg.Probe != nil {
		// Config.Probe is called once for all shards; each candidate only reads its result.
		c.Probe = health.Func(func(context.Context) error { return health.Definite(m.unhealthy()) })
		c.ProbeSettings = health.Settings{Interval: m.cfg.beatEvery()}
	}
	return c
}

// unhealthy returns why Config.Probe fails; nil: it does not.
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

// ID returns the member's name in the group.
func (m *Member) ID() string { return m.cfg.ID }

// Shards returns how many shards the group has.
func (m *Member) Shards() int { return m.cfg.Shards }

// Lease returns the lease of each shard.
func (m *Member) Lease() time.Duration { return m.cfg.Lease }

// Owned lists the shards that this member owns now, by the clock. It does no I/O.
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

// Owner returns the owner of a shard according to the newest plan: the member that owned it when
// the plan was made, or else the member that should own it. For this member's own shards Owner
// reads the clock instead. It returns false if the shard has no owner, or none is known yet. The
// result is always a hint (only the owner's Term is authoritative); normally it is about one round
// trip old. It does no I/O.
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

// OwnerOf returns the Owner of the shard to which a key belongs (ShardOf).
func (m *Member) OwnerOf(key string) (Owner, bool) { return m.Owner(m.ShardOf(key)) }

// ShardOf returns the shard to which a key belongs.
func (m *Member) ShardOf(key string) int { return Of(key, m.Shards()) }

// log returns a logger that names the group and the member in each line.
func (m *Member) log() *slog.Logger {
	return m.cfg.Logger.With("group", m.cfg.Group, "member", m.cfg.ID)
}

// changes returns a channel that is closed by the next change of an owner.
func (m *Member) changes() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// change wakes the observers. The caller holds mu.
func (m *Member) change() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// own records that the work of a term begins.
func (m *Member) own(t *Term) {
	m.mu.Lock()
	m.owned[t.Shard] = t
	m.change()
	m.mu.Unlock()
}

// disown records that the work of a term has returned.
func (m *Member) disown(t *Term) {
	m.mu.Lock()
	if m.owned[t.Shard] == t {
		delete(m.owned, t.Shard)
		m.change()
	}
	m.mu.Unlock()
}

// noted records the plan in force, for Owner.
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
