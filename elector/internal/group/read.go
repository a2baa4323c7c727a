package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// View is a group as a node shows it to a reader.
type View struct {
	Settings Settings // the zero value: there is no group
	Members  []Member
	Plan     *Plan          // nil: none
	Cuts     map[int]uint64 // of a group that grows, as Answer has them
	Err      error
}

// Read reads what each node keeps of a group, and waits for each at most for the limit.
// The rights to read suffice.
func Read(ctx context.Context, nodes *quorum.Nodes, prefix, name string, limit time.Duration) []View {
	s := NewStore(nodes, prefix, name, 0, 0, limit)
	views := make([]View, nodes.Len())
	var all sync.WaitGroup
	for node := range views {
		all.Go(func() { views[node] = s.view(ctx, node) })
	}
	all.Wait()
	return views
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
				if quorum.WrongType(cmd.Err()) {
					return quorum.ForeignKey(fmt.Sprint(cmd.Args()[1]), "holds another type than "+kind)
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
