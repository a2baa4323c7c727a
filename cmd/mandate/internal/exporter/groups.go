package exporter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

const (
	atATime     = 16              // elections, and groups, that are read concurrently
	groupWithin = 4 * time.Second // two time-outs of a node that hangs, one after the other
)

// groupReading is what was read of one group as a whole, however many shards it has.
type groupReading struct {
	name    string
	listed  int // elections of its shards, which is all that is known of a group without members
	status  shard.Status
	err     error // if set, nothing is known
	unowned time.Duration
}

// groups reads groups, and remembers since when their shards have had no owner. Only one scrape may
// use it at a time.
type groups struct {
	quorum  *elector.Quorum
	unowned map[string]map[int]time.Time // since when, by group and shard
}

// read reads the groups concurrently.
func (g groups) read(ctx context.Context, groups map[string]shard.Set, complete bool) []groupReading {
	all := make([]groupReading, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groupReading{name: name, listed: len(groups[name])})
	}
	concurrently(len(all), func(i int) { all[i].read(ctx, g.quorum) })
	g.remember(all, complete, time.Now())
	return all
}

func (g *groupReading) read(ctx context.Context, q *elector.Quorum) {
	ctx, cancel := context.WithTimeout(ctx, groupWithin)
	defer cancel()
	g.status, g.err = shard.Read(ctx, q, g.name)
	if errors.Is(g.err, shard.ErrNoGroup) { // its members are gone, so its shards have no owners
		g.status, g.err = shard.Status{Group: g.name, Shards: g.listed, Unowned: make([]shard.Vacancy, g.listed)}, nil
		for i := range g.status.Unowned {
			g.status.Unowned[i].Shard = i
		}
	}
}

// remember keeps since when shards have had no owner.
func (g groups) remember(all []groupReading, complete bool, now time.Time) {
	there := map[string]bool{}
	for i := range all {
		r := &all[i]
		there[r.name] = true
		if r.err != nil {
			continue
		}
		before, since := g.unowned[r.name], map[int]time.Time{}
		for _, v := range r.status.Unowned {
			since[v.Shard] = now
			if at, was := before[v.Shard]; was {
				since[v.Shard] = at
			}
			// Never zero for an unowned shard, so that an alert can test it at once.
			r.unowned = max(r.unowned, time.Millisecond, now.Sub(since[v.Shard]))
		}
		g.unowned[r.name] = since
	}
	if complete {
		maps.DeleteFunc(g.unowned, func(name string, _ map[int]time.Time) bool { return !there[name] })
	}
}
