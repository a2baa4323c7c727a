// Package group keeps on each node what the members of a group of shards publish for each
// other: a record of each member, and the assigner's plan. All of it is hints: if it is lost,
// stale or forged, the shards are less balanced, but nobody becomes an owner by it.
package group

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

var (
	//go:embed scripts/beat.lua
	beatLua string
	//go:embed scripts/look.lua
	lookLua string
	//go:embed scripts/publish.lua
	publishLua string
	//go:embed scripts/leave.lua
	leaveLua string

	beatScript    = redis.NewScript(beatLua)
	lookScript    = redis.NewScript(lookLua)
	publishScript = redis.NewScript(publishLua)
	leaveScript   = redis.NewScript(leaveLua)
)

// Store reads and writes a group on the nodes. Safe for concurrent use.
type Store struct {
	nodes *quorum.Nodes
	ttl   time.Duration // how long a member counts as alive after a beat
	keep  time.Duration // how long the nodes keep the group after its last beat
	limit time.Duration // time-out of a request

	Changes                       string // the channel on which changes are announced
	settingsKey, members, planKey string
	fence                         string // key of the counter of an election with the group's name

	plans   plans
	records records
}

// NewStore does no I/O. A member counts as dead when ttl has passed since its last beat, and the
// nodes forget the group when keep has passed since the last beat of any member. limit bounds each
// request.
func NewStore(nodes *quorum.Nodes, prefix, name string, ttl, keep, limit time.Duration) *Store {
	k := prefix + ":{" + name + "}:"
	return &Store{
		nodes: nodes, ttl: ttl, keep: keep, limit: limit,
		Changes: k + "changes", settingsKey: protocol.GroupKey(prefix, name), members: k + "members", planKey: k + "plan",
		fence: protocol.KeysOf(prefix, name).Fence,
	}
}

// ElectionError reports that an election has the group's name.
type ElectionError struct{}

func (*ElectionError) Error() string { return "an election has the group's name" }

// Answer is a node's answer to a beat.
type Answer struct {
	Plan     *Plan    // the node's plan, if it differs from the member's
	Settings Settings // of the group; the zero value: the node does not know the group
	Accepted bool     // the node counts the member as alive
}

// Record is a Member, encoded as the nodes keep it.
type Record struct {
	Incarnation string
	text        string
}

// Record encodes m, once for all beats with it.
func (m Member) Record() Record { return Record{m.Incarnation, m.encode()} }

// Beat reports to a node that a member is alive, and the settings of its group, which a node that
// is behind adopts. With zero settings Beat only queries the node's settings. have is the version of
// the plan that the member has.
func (s *Store) Beat(ctx context.Context, node int, settings Settings, self Record, have Version) (a Answer, err error) {
	ours := ""
	if settings != (Settings{}) {
		ours = settings.encode()
	}
	answer, err := s.run(ctx, node, beatScript, []string{s.settingsKey, s.members, s.planKey, s.fence},
		ours, self.Incarnation, self.text, s.ttl.Milliseconds(), s.keep.Milliseconds(), s.Changes, have.String())
	if err != nil {
		return a, err
	}
	switch word(answer, 0) {
	case "ok":
		a.Accepted, a.Plan = true, s.plans.parse(word(answer, 2))
	case "differs":
	case "none":
		return a, nil
	case "election":
		return a, &ElectionError{}
	default:
		return a, fmt.Errorf("unexpected answer %.200q", fmt.Sprint(answer...))
	}
	a.Settings, err = s.settings(node, word(answer, 1))
	return a, err
}

// settings parses the settings of a node.
func (s *Store) settings(node int, text string) (Settings, error) {
	f, err := parseSettings(text)
	if err != nil {
		err = fmt.Errorf("%s: the key %s %w", s.nodes.Names()[node], s.settingsKey, err)
	}
	return f, err
}

// Snapshot is what a node knows of a group.
type Snapshot struct {
	Plan    Version
	Members []Member // those that are alive
}

// Look reads the members that are alive, and the version of the plan. It leaves out invalid records.
func (s *Store) Look(ctx context.Context, node int) (Snapshot, error) {
	answer, err := s.run(ctx, node, lookScript, []string{s.members, s.planKey}, s.ttl.Milliseconds())
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Plan: parseVersion(word(answer, 0)), Members: s.records.parse(node, answer[min(1, len(answer)):])}, nil
}

// Publish stores a plan on a node and announces it. If the node has a newer plan, Publish does not
// replace it, and returns its version as newer; except that it replaces the plan of version
// replaced even if that is newer.
func (s *Store) Publish(ctx context.Context, node int, p *Plan, replaced Version) (newer Version, err error) {
	answer, err := s.run(ctx, node, publishScript, []string{s.planKey},
		p.Version.Token, p.Version.Seq, p.encode(), s.keep.Milliseconds(), s.Changes, replaced.String())
	if err == nil && word(answer, 0) == "newer" {
		newer = parseVersion(word(answer, 1))
	}
	return newer, err
}

// Leave removes a member from a node.
func (s *Store) Leave(ctx context.Context, node int, incarnation string) error {
	return s.nodes.On(ctx, node, s.limit, func(ctx context.Context, c redis.UniversalClient) error {
		return leaveScript.Run(ctx, c, []string{s.members}, incarnation, s.Changes).Err()
	})
}

func (s *Store) run(ctx context.Context, node int, script *redis.Script, keys []string, args ...any) (answer []any, err error) {
	err = s.nodes.On(ctx, node, s.limit, func(ctx context.Context, c redis.UniversalClient) error {
		answer, err = script.Run(ctx, c, keys, args...).Slice()
		return err
	})
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") { // a script's error does not name the key, but that of view does
		err = cmp.Or(s.view(ctx, node).Err, err)
	}
	return answer, err
}

// View is a group as a node shows it to a client that has only the rights to read.
type View struct {
	Settings Settings // the zero value: there is no group
	Members  []Member
	Plan     *Plan // nil: none
	Err      error
}

func (s *Store) view(ctx context.Context, node int) (v View) {
	var settings, plan *redis.StringCmd
	var members *redis.MapStringStringCmd
	var now *redis.TimeCmd
	v.Err = s.nodes.On(ctx, node, s.limit, func(ctx context.Context, c redis.UniversalClient) error {
		p := c.Pipeline()
		settings, plan = p.Get(ctx, s.settingsKey), p.Get(ctx, s.planKey)
		members, now = p.HGetAll(ctx, s.members), p.Time(ctx)
		_, err := p.Exec(ctx)
		for kind, cmds := range map[string][]redis.Cmder{"a string": {settings, plan}, "a hash": {members}} {
			for _, cmd := range cmds {
				if rediserr.WrongType(cmd.Err()) {
					return rediserr.ForeignKey(fmt.Sprint(cmd.Args()[1]), "holds another type than "+kind)
				}
			}
		}
		if errors.Is(err, redis.Nil) { // a key does not exist
			err = errors.Join(members.Err(), now.Err())
		}
		return err
	})
	if v.Err != nil {
		return v
	}
	if text := settings.Val(); text != "" {
		v.Settings, v.Err = s.settings(node, text)
	}
	v.Plan = parsePlan(plan.Val())
	for incarnation, text := range members.Val() {
		if m, ok := parseRecord(text, now.Val()); ok && m.Incarnation == incarnation {
			v.Members = append(v.Members, m)
		}
	}
	return v
}
