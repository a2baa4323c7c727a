// Package group keeps on each node what the members of a group of shards publish for each
// other: a record of each member, and the assigner's plan. All of it is hints: if it is lost,
// stale or forged, the shards are less balanced, but nobody becomes an owner by it.
package group

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

//go:embed scripts
var scripts embed.FS

var (
	beatScript    = redis.NewScript(protocol.Lua(scripts, "beat"))
	publishScript = redis.NewScript(protocol.Lua(scripts, "publish"))
	leaveScript   = redis.NewScript(protocol.Lua(scripts, "leave"))
)

// Store reads and writes a group on the nodes. Safe for concurrent use.
type Store struct {
	nodes *nodes.Nodes
	ttl   time.Duration // how long a member counts as alive after a beat
	keep  time.Duration // how long the nodes keep the group after its last beat
	limit time.Duration // time-out of a request

	Changes                               string // the channel on which changes are announced
	prefix, settingsKey, members, planKey string
}

// NewStore does no I/O. A member counts as dead when ttl has passed since its last beat, and the
// nodes forget the group when keep has passed since the last beat of any member. limit bounds each
// request.
func NewStore(nodes *nodes.Nodes, prefix, name string, ttl, keep, limit time.Duration) *Store {
	k := prefix + ":{" + name + "}:"
	return &Store{
		nodes: nodes, ttl: ttl, keep: keep, limit: limit,
		Changes: protocol.ChannelIn(k+"changes", nodes.Database()), prefix: prefix, settingsKey: k + "group", members: k + "members", planKey: k + "plan",
	}
}

// Answer is a node's answer to a beat.
type Answer struct {
	Plan     *Plan    // the node's plan, if it differs from the member's
	Settings Settings // of the group; the zero value: the node does not know the group
	Accepted bool     // the node counts the member as alive
	Version  string   // of the node's plan, also of an invalid one
	Members  []Member // that are alive; only for the assigner
}

// Beat reports to a node that a member is alive. A node without settings adopts the member's; one
// with others does not accept the member. With zero settings Beat only queries the node's. have is
// the version of the plan that the member has. assigns requests what the assigner needs.
func (s *Store) Beat(ctx context.Context, node int, settings Settings, self Member, have Version, assigns bool) (a Answer, err error) {
	ours := ""
	if settings != (Settings{}) {
		ours = string(protocol.Encode(settings))
	}
	answer, err := s.run(ctx, node, beatScript, []string{s.settingsKey, s.members, s.planKey},
		ours, self.Incarnation, protocol.Encode(self), s.ttl.Milliseconds(), s.keep.Milliseconds(), s.Changes, have.String(), assigns)
	if err != nil {
		return a, err
	}
	switch {
	case len(answer) >= 3 && answer[0] == "ok":
		a = Answer{Plan: parsePlan(answer[1]), Settings: settings, Accepted: true, Version: answer[2]}
		for i := 3; i+1 < len(answer); i += 2 {
			if m, ok := parseMember(answer[i+1], answer[i]); ok {
				a.Members = append(a.Members, m)
			}
		}
		return a, nil
	case len(answer) == 2 && answer[0] == "differs":
		a.Settings, err = s.settings(answer[1])
		return a, s.nodes.NodeError(node, err)
	case slices.Equal(answer, []string{"none"}):
		return a, nil
	default:
		return a, fmt.Errorf("unexpected answer %.200q", answer)
	}
}

func (s *Store) settings(text string) (f Settings, err error) {
	if json.Unmarshal([]byte(text), &f) != nil || f.Shards < 1 || f.Shards > MaxShards {
		return Settings{}, fmt.Errorf("the key %s holds %.100q, which no member wrote: delete it", s.settingsKey, text)
	}
	return f, nil
}

// Publish replaces a node's plan of the version replaces, and announces the new one. It does nothing when the
// node has another plan by now.
func (s *Store) Publish(ctx context.Context, node int, p *Plan, replaces string) error {
	_, err := s.run(ctx, node, publishScript, []string{s.planKey},
		p.Version.String(), protocol.Encode(p), s.keep.Milliseconds(), s.Changes, replaces)
	return err
}

// Leave removes a member from a node. One that died remains listed among those that are gone.
func (s *Store) Leave(ctx context.Context, node int, incarnation string, died bool) error {
	_, err := s.run(ctx, node, leaveScript, []string{s.members}, incarnation, s.Changes, died)
	return err
}

func (s *Store) run(ctx context.Context, node int, script *redis.Script, keys []string, args ...any) (answer []string, err error) {
	err = s.nodes.On(ctx, node, s.limit, func(ctx context.Context, c redis.UniversalClient) error {
		answer, err = script.Run(ctx, c, keys, args...).StringSlice()
		return err
	})
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") { // a script's error does not name the key, but that of view does
		err = cmp.Or(s.view(ctx, node).Err, err)
	}
	return answer, rediserr.CandidateNeeds(err, s.prefix)
}

// View is a group as a node shows it to a client that has only the rights to read.
type View struct {
	Settings Settings // the zero value: there is no group
	Members  []Member
	Gone     []Gone
	Plan     *Plan // nil: none
	Err      error
}

// Gone is a member that has not left, and counts as dead since that time, by the node's clock.
type Gone struct {
	Member

	Since time.Time
}

// Read reads what each node keeps of a group, and waits at most limit for each node. It needs
// only the rights to read.
func Read(ctx context.Context, ns *nodes.Nodes, prefix, name string, limit time.Duration) []View {
	s := NewStore(ns, prefix, name, 0, 0, limit)
	views := make([]View, ns.Len())
	view := func(ctx context.Context, n *nodes.Node) (View, error) {
		v := s.view(ctx, slices.Index(ns.All(), n))
		return v, v.Err
	}
	for i, a := range nodes.Ask(ctx, ns, limit, limit, view, nodes.Majority[View](ns)) {
		views[i] = a.Value
		views[i].Err = a.Err
	}
	return views
}

func (s *Store) view(ctx context.Context, node int) (v View) {
	var err error
	var settings, plan *redis.StringCmd
	var members *redis.MapStringStringCmd
	var now *redis.TimeCmd
	v.Err = s.nodes.On(ctx, node, s.limit, func(ctx context.Context, c redis.UniversalClient) error {
		p := c.Pipeline()
		settings, plan, members, now = p.Get(ctx, s.settingsKey), p.Get(ctx, s.planKey), p.HGetAll(ctx, s.members), p.Time(ctx)
		cmds, err := p.Exec(ctx)
		for _, cmd := range cmds {
			if rediserr.WrongType(cmd.Err()) {
				kind := map[bool]string{true: "a hash", false: "a string"}[cmd == redis.Cmder(members)]
				return rediserr.ForeignKey(fmt.Sprint(cmd.Args()[1]), "holds another type than "+kind)
			}
		}
		if rediserr.Missing(err) { // a key does not exist
			err = errors.Join(members.Err(), now.Err())
		}
		return err
	})
	if v.Err != nil {
		return v
	}
	if text := settings.Val(); text != "" {
		v.Settings, err = s.settings(text)
		v.Err = s.nodes.NodeError(node, err)
	}
	v.Plan = parsePlan(plan.Val())
	for incarnation, text := range members.Val() {
		until, record, _ := strings.Cut(text, " ")
		ms, err := strconv.ParseInt(until, 10, 64)
		switch m, ok := parseMember(record, incarnation); {
		case !ok || err != nil:
		case ms >= now.Val().UnixMilli():
			v.Members = append(v.Members, m)
		default:
			v.Gone = append(v.Gone, Gone{m, time.UnixMilli(ms)})
		}
	}
	return v
}
