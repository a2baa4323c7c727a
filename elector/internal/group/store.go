// Package group keeps on each node what the members of a group of shards publish for each
// other: who they are, and the assigner's plan. All of it is hints: what is lost, stale or
// forged here costs balance, and never makes an owner.
package group

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
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

// Store is a group as the nodes keep it. Safe for concurrent use.
type Store struct {
	nodes    *quorum.Nodes
	settings string
	ttl      time.Duration // for how long a member counts as alive after a beat
	keep     time.Duration // for how long the nodes keep the group after its last beat
	limit    time.Duration // of a request

	Changes                       string // the channel on which changes are announced
	settingsKey, members, planKey string
	fence                         string // of an election that has the group's name
}

// NewStore does no I/O. A member counts as dead for ttl after its last beat; the group is
// forgotten after keep without any.
func NewStore(nodes *quorum.Nodes, prefix, name string, settings Settings, ttl, keep, limit time.Duration) *Store {
	k := prefix + ":{" + name + "}:"
	return &Store{
		nodes: nodes, settings: settings.encode(), ttl: ttl, keep: keep, limit: limit,
		Changes: k + "changes", settingsKey: k + "group", members: k + "members", planKey: k + "plan",
		fence: quorum.KeysOf(prefix, name).Fence,
	}
}

// DiffersError is of a group whose living members agree on other settings.
type DiffersError struct{ Ours, Theirs Settings }

func (e *DiffersError) Error() string {
	return fmt.Sprintf("the members of the group have %s, this one %s", e.Theirs, e.Ours)
}

// ElectionError is of a group that has the name of an election.
type ElectionError struct{}

func (*ElectionError) Error() string { return "an election has the group's name" }

// Beat reports to a node that a member lives. plan is the node's, when it is another one than
// that version.
func (s *Store) Beat(ctx context.Context, node int, m Member, have Version) (plan *Plan, err error) {
	answer, err := s.run(ctx, node, beatScript, []string{s.settingsKey, s.members, s.planKey, s.fence},
		s.settings, m.Incarnation, m.encode(), s.ttl.Milliseconds(), s.keep.Milliseconds(), s.Changes, have.String())
	if err != nil {
		return nil, err
	}
	switch word(answer, 0) {
	case "ok":
		return parsePlan(word(answer, 1)), nil
	case "differs":
		ours, _ := parseSettings(s.settings)
		theirs, err := parseSettings(word(answer, 1))
		if err != nil {
			return nil, err
		}
		return nil, &DiffersError{Ours: ours, Theirs: theirs}
	case "election":
		return nil, &ElectionError{}
	default:
		return nil, fmt.Errorf("unexpected answer %.200q", fmt.Sprint(answer...))
	}
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
	snapshot := Snapshot{Plan: parseVersion(word(answer, 0))}
	for i := 1; i+1 < len(answer); i += 2 {
		if m, err := parseMember(word(answer, i+1)); err == nil && m.Incarnation == word(answer, i) {
			snapshot.Members = append(snapshot.Members, m)
		}
	}
	return snapshot, nil
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
	return answer, err
}

func word(answer []any, i int) string {
	if i >= len(answer) {
		return ""
	}
	w, _ := answer[i].(string)
	return w
}
