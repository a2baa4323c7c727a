// Package shard spreads many shards of work evenly over the members of a group. Each
// shard has one owner at a time, which has everything that a leader has (a lease, a fencing
// token, a health probe, a history), and no member owns more than its due by weight.
//
//	m, err := shard.New(q, shard.Config{Group: "invoices", Shards: 64})
//	err = m.Run(ctx, func(ctx context.Context, term *shard.Term) error {
//		return serve(ctx, term.Shard, term.Token()) // once for each shard that this member owns
//	})
//
// # How it works
//
// A shard is an ordinary election: shard 7 of invoices is the election invoices#7, and a
// member owns the shard only while it holds the lock of that election. What package elector
// promises of a leader holds for an owner.
//
// Several times per lease, a member reports to the nodes that it is alive, which shards it
// owns, and which it can't serve. The members elect an assigner (the election
// invoices#assigner). From the reports the assigner computes a plan: which member should own
// which shard, as evenly as weights allow, with as few moves as possible.
//
// The plan is a hint. A member campaigns for the shards that are planned for it. It hands
// over a shard that is planned for another member as soon as that member campaigns for the
// shard, so a planned move leaves a shard without an owner only for the time of a release
// and a claim. A plan that is wrong, late, forged or missing costs balance. It can't make
// two owners.
//
// All members need the same number of shards and the same lease: one with others is refused
// while the others run, and no work begins unless a majority of the nodes has lately accepted
// the member with its numbers.
//
// The goroutine of Run owns the state (reconciler), the assigner's included; one goroutine for each node sends beats,
// one for each shard campaigns, and one more campaigns as the assigner. What they find waits
// for Run's goroutine in a queue.
package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/setting"
	"github.com/mandate-dev/mandate/health"
)

// Member is one member of a group. It owns shards while Run runs. Safe for concurrent use.
type Member struct {
	cfg         Config
	quorum      *elector.Quorum
	nodes       *nodes.Nodes
	bus         *pubsub.Bus
	store       *group.Store
	probe       *health.Runner // of Config.Probe; nil: always healthy
	incarnation string
	running     atomic.Bool
	state       atomic.Pointer[state]

	mu    sync.Mutex // guards all below
	owned map[int]*Term
	plan  *inForce
}

// Term is the ownership of one shard, from its begin to its end. To test your work, make a Term
// of an electortest.NewTerm.
type Term struct {
	*elector.Term

	Shard int // from 0
	// Shards is the number of shards in the group: the work covers the keys that belong to Shard
	// out of Shards (Has).
	Shards int
}

// Has reports whether a key belongs to the shard.
func (t *Term) Has(key string) bool { return Of(key, t.Shards) == t.Shard }

// state is why this member wants no shards, and why it must not be the assigner: its claims would only get in
// the way of members that are able to do the assigner's work. Nil: it may.
type state struct{ closed, unfit error }

// inForce is the plan in force; it has no shards before the first one was received. It is never changed.
type inForce struct {
	*group.Plan

	me    int   // this member's index in Members
	next  []int // by shard: the member that should own it
	owner []int // by shard: the member that owned it when the plan was made
}

// Owner is a member that owns a shard.
type Owner struct {
	ID        string
	Advertise string
}

// New makes a member. It does no I/O. The error is an *elector.ConfigError that lists every
// problem of the configuration.
func New(q *elector.Quorum, cfg Config) (*Member, error) {
	nodes, bus := q.Parts(module.Only{})
	if nodes == nil {
		return nil, errors.New("shard: New: the quorum is nil: make one with elector.NewQuorum or elector.Open")
	}
	cfg = cfg.withDefaults()
	// Report here, before Run, what elector.New would refuse.
	trial := cfg.candidate("any", max(cfg.Lease, minLease))
	trial.StopMargin, trial.Cooldown, trial.ProbeSettings, trial.WorkProbeSettings = cfg.StopMargin, cfg.Cooldown, cfg.ProbeSettings, cfg.WorkProbeSettings
	e, err := elector.New(q, trial)
	if err := setting.Join("shard: ", append(cfg.validate(), err)...); err != nil {
		return nil, err
	}
	cfg.ID = e.ID()
	remembered := 2 * cfg.Lease // of a group without members: after that time no former member holds a lock any more
	m := &Member{
		cfg: cfg, quorum: q, nodes: nodes, bus: bus, incarnation: e.Incarnation(), owned: map[int]*Term{},
		store: group.NewStore(nodes, q.Prefix(), cfg.Group, cfg.aliveFor(), remembered, cfg.requestTimeout()),
	}
	m.state.Store(&state{})
	m.follow(&group.Plan{})
	if cfg.Probe != nil {
		if m.probe, err = health.NewRunner(cfg.Probe, cfg.ProbeSettings); err != nil {
			return nil, fmt.Errorf("shard: Probe: %w", err)
		}
	}
	return m, nil
}

func (m *Member) candidate(shard int) elector.Config {
	c := m.cfg.candidate(ElectionOf(m.cfg.Group, shard), m.cfg.Lease)
	c.StopMargin = m.cfg.StopMargin
	if m.cfg.Probe != nil {
		// Config.Probe is called once for all shards; each candidate only reads its result.
		c.Probe, c.ProbeSettings = m.verdict(m.unhealthy)
	}
	if m.cfg.WorkProbe != nil {
		c.WorkProbe, c.WorkProbeSettings = m.cfg.WorkProbe(shard), m.cfg.WorkProbeSettings
	}
	return c
}

// verdict returns a probe that only reads a result.
func (m *Member) verdict(why func() error) (health.Probe, health.Settings) {
	return health.Func(func(context.Context) error { return health.Definite(why()) }), health.Settings{Interval: m.cfg.beatEvery()}
}

// unhealthy returns why Config.Probe fails; nil: it does not.
func (m *Member) unhealthy() error {
	if m.probe == nil {
		return nil
	}
	if st := m.probe.Status(); !st.Healthy {
		return cmp.Or(st.Err, errors.New("the probe has not answered yet"))
	}
	return nil
}

// ID returns the member's name in the group.
func (m *Member) ID() string { return m.cfg.ID }

// Group returns the group's name.
func (m *Member) Group() string { return m.cfg.Group }

// Shards returns how many shards the group has.
func (m *Member) Shards() int { return m.cfg.Shards }

// Lease returns the lease of each shard.
func (m *Member) Lease() time.Duration { return m.cfg.Lease }

// Check returns nil if this member can be given shards, or else what is wrong. A member that owns no
// shard does not fail it, so Check fits a readiness check of all members. It does no I/O.
func (m *Member) Check() error {
	if !m.running.Load() {
		return errors.New("shard: Run is not running")
	}
	if why := m.state.Load().closed; why != nil {
		return why
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plan.Shards == 0 {
		return errors.New("shard: no plan has been received yet: no assigner leads, or it does not count this member yet")
	}
	return nil
}

// Term returns this member's term as the owner of a shard; nil: it does not own the shard now, by
// the clock. It does no I/O.
func (m *Member) Term(shard int) *Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.owned[shard]; t != nil && t.Valid() {
		return t
	}
	return nil
}

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
	if m.Term(shard) != nil {
		return Owner{ID: m.cfg.ID, Advertise: m.cfg.Advertise}, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if shard < 0 || shard >= m.plan.Shards {
		return Owner{}, false
	}
	i := m.plan.owner[shard]
	if i == group.NoMember {
		i = m.plan.next[shard]
	}
	if i == group.NoMember {
		return Owner{}, false
	}
	return Owner{ID: m.plan.Members[i].ID, Advertise: m.plan.Members[i].Advertise}, true
}

// OwnerOf returns the Owner of the shard to which a key belongs (ShardOf).
func (m *Member) OwnerOf(key string) (Owner, bool) { return m.Owner(m.ShardOf(key)) }

// ShardOf returns the shard to which a key belongs.
func (m *Member) ShardOf(key string) int { return Of(key, m.cfg.Shards) }

// own notes the term of a shard; nil: it has ended.
func (m *Member) own(shard int, t *Term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t == nil {
		delete(m.owned, shard)
		return
	}
	m.owned[shard] = t
}

func (m *Member) follow(p *group.Plan) *inForce {
	f := &inForce{Plan: p, me: p.Index(m.incarnation), next: p.Assignees(), owner: p.Owners()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = f
	return f
}

// log returns a logger that names the group and the member in each line.
func (m *Member) log() *slog.Logger {
	return m.cfg.Logger.With("group", m.cfg.Group, "member", m.cfg.ID)
}
