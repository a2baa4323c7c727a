package console

import (
	"context"
	"sync"

	"github.com/mandate-dev/mandate/elector/shard"
)

// followers are those of the elections, of the groups, and of the shards that are open. Its
// fields belong to the goroutine that made it.
type followers struct {
	w    *watch
	ctx  context.Context
	wg   sync.WaitGroup
	size limits

	elections, groups, shards running
}

// running are followers by what they follow.
type running map[string]context.CancelFunc

func (r running) count() int { return len(r) }

func newFollowers(ctx context.Context, w *watch) *followers {
	return &followers{w: w, ctx: ctx, size: newLimits(), elections: running{}, groups: running{}, shards: running{}}
}

// wait is for after the context has ended.
func (f *followers) wait() { f.wg.Wait() }

// listed brings them in line with a list; what an incomplete one lacks may still be there.
func (f *followers) listed(s shown, complete bool) {
	there := map[string]bool{}
	for _, name := range s.elections {
		there[name] = true
		f.start(f.elections, name, func(ctx context.Context) { f.follower(name, false).run(ctx, f.w.quorum) })
	}
	groups := len(s.groups)
	for name, listed := range s.groups {
		there[name] = true
		f.start(f.groups, name, func(ctx context.Context) {
			g := &groupFollower{group: name, listed: listed, cache: f.w.cache, attention: f.w.attention, hosts: f.w.hosts, turns: f.size.looks, seen: newSightings()}
			g.run(ctx, f.w.quorum, groups)
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
		f.start(f.shards, name, func(ctx context.Context) { f.follower(name, true).run(ctx, f.w.quorum) })
	}
	f.shards.stop(func(name string) bool { return !open[name] })
}

func (f *followers) follower(name string, inGroup bool) *follower {
	hosts := f.w.hosts
	if inGroup {
		hosts = newHostCache() // its group has it there
	}
	return &follower{
		cache: f.w.cache, nodes: f.w.nodes, attention: f.w.attention, limits: f.size,
		known: &known{election: name, cache: f.w.cache, hosts: hosts, inGroup: inGroup},
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
