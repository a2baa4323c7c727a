package console

import (
	"context"
	"sync"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// display is what the page shows, and whom it follows for that.
type display struct {
	cache     *cache
	nodes     *nodeCache
	hosts     *hostCache
	attention *attention
}

// shown is what the page has a row for.
type shown struct {
	elections []string
	groups    map[string]int // and how many shards Redis lists
}

// followers are those of the elections, of the groups, and of the shards that are open. Its
// fields belong to the goroutine that made it.
type followers struct {
	display
	quorum *elector.Quorum
	ctx    context.Context
	wg     sync.WaitGroup
	size   limits

	elections, groups, shards running
}

// running are followers by what they follow.
type running map[string]context.CancelFunc

func (r running) count() int { return len(r) }

func newFollowers(ctx context.Context, q *elector.Quorum, d display) *followers {
	return &followers{display: d, quorum: q, ctx: ctx, size: newLimits(), elections: running{}, groups: running{}, shards: running{}}
}

// wait is for after the context has ended.
func (f *followers) wait() { f.wg.Wait() }

// listed brings them in line with a list; what an incomplete one lacks may still be there.
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

// opened follows the shards among the elections that are open.
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
		hosts = newHostCache() // its group has it there
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
