package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// gate delays the work of each term until a majority of the nodes has confirmed the number of shards
// that it works with, or has returned it so recently that no shard can be cut yet. The elections of
// shards keep their names when that number changes. Without the gate, a member that was away while
// the group grew could win the lock of one shard and work on the keys of others.
type gate struct {
	nodes    *quorum.Nodes
	store    *group.Store
	again    time.Duration                  // after which a term that was not let in tries again
	settings atomic.Pointer[group.Settings] // of the group, as far as this member knows; nil: not known yet
	settled  atomic.Pointer[group.Settings] // the settings for which settle has returned true; nil: none
	recent   *recent

	mu      sync.Mutex // guards all below
	waiting []*passage
	busy    bool // a round is under way: terms that wait join the next one
}

// passage is a term that waits at the gate.
type passage struct {
	group.Entry

	valid func() bool // the term still holds the lock
	done  chan int    // the number of shards; 0: not confirmed in this round
}

// enter blocks until the term may work, and returns with how many shards; ok is false when ctx has
// ended.
func (g *gate) enter(ctx context.Context, shard int, token uint64, valid func() bool) (shards int, ok bool) {
	for {
		if s := g.settings.Load(); s != nil && s.From == 0 && s.Shards > shard && g.recent.has(s.Shards, g.nodes.Majority()) {
			return s.Shards, ctx.Err() == nil
		}
		p := &passage{Entry: group.Entry{Shard: shard, Token: token}, valid: valid, done: make(chan int, 1)}
		g.mu.Lock()
		g.waiting = append(g.waiting, p)
		begin := !g.busy
		g.busy = true
		g.mu.Unlock()
		if begin {
			go g.rounds(context.WithoutCancel(ctx))
		}
		select {
		case <-ctx.Done():
			return 0, false
		case shards = <-p.done:
			if shards > shard {
				return shards, true
			}
		}
		select {
		case <-ctx.Done():
			return 0, false
		case <-time.After(g.again):
		}
	}
}

// rounds queries the nodes for all terms that wait, until none waits.
func (g *gate) rounds(ctx context.Context) {
	for {
		g.mu.Lock()
		all := g.waiting
		g.waiting = nil
		g.busy = len(all) > 0
		g.mu.Unlock()
		if len(all) == 0 {
			return
		}
		settings := g.round(ctx)
		for _, p := range all {
			p.done <- settings.Shards
		}
		g.note(ctx, settings, all)
	}
}

// round returns the settings that this member knows if a majority of the nodes has that number of
// shards, else the zero value. It does not wait for a node that hangs.
func (g *gate) round(ctx context.Context) group.Settings {
	settings := g.settings.Load()
	if settings == nil {
		return group.Settings{}
	}
	n := g.nodes.Len()
	answers := make(chan bool, n)
	for node := range n {
		go func() {
			ok, _ := g.store.Enter(ctx, node, settings.Shards, nil)
			answers <- ok
		}()
	}
	yes, no := 0, 0
	for yes < g.nodes.Majority() {
		if <-answers {
			yes++
		} else if no++; n-no < g.nodes.Majority() {
			return group.Settings{}
		}
	}
	return *settings
}

// note has the nodes note that the shards of these terms are cut. It does so only when the settings
// have settled, and only for terms that still hold their locks then: a term that has lost its lock
// may have been followed by one that works with fewer shards. If a note is lost, the reconciler sends
// it again (noteCuts).
func (g *gate) note(ctx context.Context, settings group.Settings, all []*passage) {
	if s := g.settled.Load(); s == nil || *s != settings {
		return
	}
	var entries []group.Entry
	for _, p := range all {
		if p.Shard < settings.From && p.valid() {
			entries = append(entries, p.Entry)
		}
	}
	if len(entries) == 0 {
		return
	}
	for node := range g.nodes.Len() {
		go func() { _, _ = g.store.Enter(ctx, node, settings.Shards, entries) }()
	}
}
