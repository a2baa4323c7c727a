// Package group keeps on each node what the members of a group of shards publish for each
// other: who they are, and the assigner's plan. All of it is hints: what is lost, stale or
// forged here costs balance, and never makes an owner.
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

// Store is a group as the nodes keep it. Safe for concurrent use.
type Store struct {
	nodes *quorum.Nodes
	ttl   time.Duration // for how long a member counts as alive after a beat
	keep  time.Duration // for how long the nodes keep the group after its last beat
	limit time.Duration // of a request

	Changes                       string // the channel on which changes are announced
	settingsKey, members, planKey string
	cuts                          string // the shards of a group that grows which are not owned as they were any more
	fence                         string // of an election that has the group's name

	plans   plans
	records records
}

// NewStore does no I/O. A member counts as dead for ttl after its last beat; the group is
// forgotten after keep without any.
func NewStore(nodes *quorum.Nodes, prefix, name string, ttl, keep, limit time.Duration) *Store {
	k := prefix + ":{" + name + "}:"
	return &Store{
		nodes: nodes, ttl: ttl, keep: keep, limit: limit,
		Changes: k + "changes", settingsKey: protocol.GroupKey(prefix, name), members: k + "members", planKey: k + "plan", cuts: k + "cuts",
		fence: protocol.KeysOf(prefix, name).Fence,
	}
}

// ElectionError is of a group that has the name of an election.
type ElectionError struct{}

func (*ElectionError) Error() string { return "an election has the group's name" }

// Answer is what a node answered to a beat.
type Answer struct {
	Plan     *Plan          // the node's, when it is another one than the member has
	Settings Settings       // of the group; the zero value: the node knows of none
	Accepted bool           // the member counts as alive there
	Cuts     map[int]uint64 // of a group that grows: the shards that are cut, and by which term
}

// Record is what a member publishes of itself, as the nodes keep it.
type Record struct {
	Incarnation string
	text        string
}

// Record is made once for all beats with it.
func (m Member) Record() Record { return Record{m.Incarnation, m.encode()} }

// Beat reports to a node that a member lives, and what the settings of its group are: a node
// that is behind takes them over. The zero value queries only what they are.
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

// settings are those that a node has.
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

// Entry is the owner of a shard, by its term, before it works.
type Entry struct {
	Shard int
	Token uint64
}

// Enter queries a node whether its group has that many shards: ok. With entries it has the node
// note that these shards are cut, which is only true once a majority has answered ok to one who
// held their locks after that: such a request may arrive late, and an earlier one must not be
// taken for it.
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
	Members []Member // that live
}

// Look reads who lives. What is no member's record is left out.
func (s *Store) Look(ctx context.Context, node int) (Snapshot, error) {
	answer, err := s.run(ctx, node, lookScript, []string{s.members, s.planKey}, s.ttl.Milliseconds())
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Plan: parseVersion(word(answer, 0)), Members: s.records.parse(node, answer[min(1, len(answer)):])}, nil
}

// Publish stores a plan on a node and announces it. newer is the version of a plan that
// stands there and was not replaced; replaced may be written over whatever its term was.
func (s *Store) Publish(ctx context.Context, node int, p *Plan, replaced Version) (newer Version, err error) {
	answer, err := s.run(ctx, node, publishScript, []string{s.planKey},
		p.Version.Token, p.Version.Seq, p.encode(), s.keep.Milliseconds(), s.Changes, replaced.String())
	if err == nil && word(answer, 0) == "newer" {
		newer = parseVersion(word(answer, 1))
	}
	return newer, err
}

// Leave takes a member from the roll of a node.
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
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") { // a script does not say of which key
		err = cmp.Or(s.view(ctx, node).Err, err)
	}
	return answer, err
}

// View is a group as a node shows it to a reader.
type View struct {
	Settings Settings // the zero value: there is no group
	Members  []Member
	Plan     *Plan          // nil: none
	Cuts     map[int]uint64 // of a group that grows, as Answer has them
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
		if errors.Is(err, redis.Nil) { // of a key that is not there
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
