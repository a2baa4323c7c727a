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
	"strconv"
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
	//go:embed scripts/enter.lua
	enterLua string
	//go:embed scripts/look.lua
	lookLua string
	//go:embed scripts/publish.lua
	publishLua string
	//go:embed scripts/leave.lua
	leaveLua string

	beatScript    = redis.NewScript(beatLua)
	enterScript   = redis.NewScript(enterLua)
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
	cuts                          string // key of the cut shards of a group that grows
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
		Changes: k + "changes", settingsKey: protocol.GroupKey(prefix, name), members: k + "members", planKey: k + "plan", cuts: k + "cuts",
		fence: protocol.KeysOf(prefix, name).Fence,
	}
}

// ElectionError reports that an election has the group's name.
type ElectionError struct{}

func (*ElectionError) Error() string { return "an election has the group's name" }

// Answer is a node's answer to a beat.
type Answer struct {
	Plan     *Plan          // the node's plan, if it differs from the member's
	Settings Settings       // of the group; the zero value: the node does not know the group
	Accepted bool           // the node counts the member as alive
	Cuts     map[int]uint64 // of a group that grows: the cut shards, and the token of the term that cut each
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
	answer, err := s.run(ctx, node, beatScript, []string{s.settingsKey, s.members, s.planKey, s.fence, s.cuts},
		ours, self.Incarnation, self.text, s.ttl.Milliseconds(), s.keep.Milliseconds(), s.Changes, have.String())
	if err != nil {
		return a, err
	}
	switch word(answer, 0) {
	case "ok":
		a.Accepted, a.Plan = true, s.plans.parse(word(answer, 2))
		a.Cuts = parseCuts(answer[min(3, len(answer)):])
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

func parseCuts(list []any) map[int]uint64 {
	all := make(map[int]uint64, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		shard, err := strconv.Atoi(word(list, i))
		token, err2 := strconv.ParseUint(word(list, i+1), 10, 64)
		if err == nil && err2 == nil && shard >= 0 && shard < MaxShards {
			all[shard] = token
		}
	}
	return all
}

// Entry is a shard whose owner has won a term and has not begun to work.
type Entry struct {
	Shard int
	Token uint64 // of that term
}

// Enter asks a node whether the group has that many shards; ok is true if it has. With entries, the
// node also records that these shards are cut. Send entries only after a majority has answered ok
// to a request without entries, and only if their locks are still held after that: a request may
// arrive late, and must not record a shard as cut before that is true.
func (s *Store) Enter(ctx context.Context, node, shards int, entries []Entry) (ok bool, err error) {
	args := []any{shards, s.keep.Milliseconds(), s.Changes}
	for _, e := range entries {
		args = append(args, e.Shard, e.Token)
	}
	answer, err := s.run(ctx, node, enterScript, []string{s.settingsKey, s.cuts}, args...)
	return err == nil && word(answer, 0) == "ok", err
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
	Plan     *Plan          // nil: none
	Cuts     map[int]uint64 // as in Answer
	Err      error
}

func (s *Store) view(ctx context.Context, node int) (v View) {
	var settings, plan *redis.StringCmd
	var members, cuts *redis.MapStringStringCmd
	var now *redis.TimeCmd
	v.Err = s.nodes.On(ctx, node, s.limit, func(ctx context.Context, c redis.UniversalClient) error {
		p := c.Pipeline()
		settings, plan = p.Get(ctx, s.settingsKey), p.Get(ctx, s.planKey)
		members, cuts, now = p.HGetAll(ctx, s.members), p.HGetAll(ctx, s.cuts), p.Time(ctx)
		_, err := p.Exec(ctx)
		for kind, cmds := range map[string][]redis.Cmder{"a string": {settings, plan}, "a hash": {members, cuts}} {
			for _, cmd := range cmds {
				if rediserr.WrongType(cmd.Err()) {
					return rediserr.ForeignKey(fmt.Sprint(cmd.Args()[1]), "holds another type than "+kind)
				}
			}
		}
		if errors.Is(err, redis.Nil) { // a key does not exist
			err = errors.Join(members.Err(), cuts.Err(), now.Err())
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
	list := make([]any, 0, 2*len(cuts.Val()))
	for shard, token := range cuts.Val() {
		list = append(list, shard, token)
	}
	v.Cuts = parseCuts(list)
	for incarnation, text := range members.Val() {
		if m, ok := parseRecord(text, now.Val()); ok && m.Incarnation == incarnation {
			v.Members = append(v.Members, m)
		}
	}
	return v
}
