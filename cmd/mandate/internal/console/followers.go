package console

import (
	"context"
	"sync"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// display is what the page shows.
type display struct {
	cache     *cache
	nodes     *nodeCache
	hosts     *hostCache
	attention *attention
}

// shown lists what the page has a row for.
type shown struct {
	elections []string
	groups    map[string]int // with the number of shards that Redis lists
}

// followers follow the elections, the groups, and the shards that are open. The fields belong to
// the goroutine that has created it.
type followers struct {
	display
	quorum *elector.Quorum
	ctx    context.Context
	wg     sync.WaitGroup
	size   limits

	elections, groups, shards running
}

// running maps what is followed to the function that stops its follower.
type running map[string]context.CancelFunc

func (r running) count() int { return len(r) }

func newFollowers(ctx context.Context, q *elector.Quorum, d display) *followers {
	return &followers{display: d, quorum: q, ctx: ctx, size: newLimits(), elections: running{}, groups: running{}, shards: running{}}
}

// wait waits for all followers. The context must have ended.
func (f *followers) wait() { f.wg.Wait() }

// listed starts and stops followers as needed for a list. If the list is incomplete it stops none,
// because what is missing may still exist.
func (f *followers) listed(s shown, complete bool) {
	there := map[string]bool{}
	for _, name := range s.elections {
		there[name] = true
		f.start(f.elections, name, func(ctx context.Context) { f.follower(name, false).run(ctx, f.quorum) })
	}
	groups := len(s.groups)
	for name, listed := range s.groups {
		there[name] = true
		f.start(f.groups, name, func(ctx context.Context) {
			g := &groupFollower{group: name, listed: listed, cache: f.cache, attention: f.attention, hosts: f.hosts, turns: f.size.looks, seen: newSightings()}
			g.run(ctx, f.quorum, groups)
		})
	}
	if !complete {
		return
	}
	isGone := func(name string) bool { return !there[name] }
	f.elections.stop(isGone)
	f.groups.stop(isGone)
}

// opened follows those of the open elections that are shards of a followed group.
func (f *followers) opened(names []string) {
	open := map[string]bool{}
	for _, name := range names {
		group, _, is := shard.OfElection(name)
		if !is || f.groups[group] == nil || f.elections[name] != nil {
			continue
		}
		open[name] = true
		f.start(f.shards, name, func(ctx context.Context) { f.follower(name, true).run(ctx, f.quorum) })
	}
	f.shards.stop(func(name string) bool { return !open[name] })
}

func (f *followers) follower(name string, inGroup bool) *follower {
	hosts := f.hosts
	if inGroup {
		hosts = newHostCache() // the hosts of shards are shown by their group
	}
	return &follower{
		cache: f.cache, nodes: f.nodes, attention: f.attention, limits: f.size,
		known: &known{election: name, cache: f.cache, hosts: hosts, inGroup: inGroup},
	}
}

func (f *followers) start(among running, name string, run func(context.Context)) {
	if among[name] != nil {
		return
	}
	ctx, stop := context.WithCancel(f.ctx)
	among[name] = stop
	f.wg.Go(func() { run(ctx) })
}

func (r running) stop(which func(string) bool) {
	for name, stop := range r {
		if which(name) {
			stop()
			delete(r, name)
		}
	}
}
