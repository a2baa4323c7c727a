package shard

import (
	"context"
	"iter"
)

// Change is who owns a shard from now on, as this member knows it.
type Change struct {
	Shard int
	Owner Owner // the zero value: no member
}

// Observe yields who owns each shard, those that are owned first, and then every change of
// Owner, until ctx ends or the loop is left. Of changes that come faster than they are taken
// only the last one of each shard is yielded. It does no I/O, and waits for changes only
// while Run runs; like Owner it gives hints.
func (m *Member) Observe(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		last := make([]Owner, m.cfg.Shards)
		for {
			changed := m.changes() // first the channel, then the owners: no change falls in between
			for s := range last {
				owner, _ := m.Owner(s)
				if owner == last[s] {
					continue
				}
				last[s] = owner
				if ctx.Err() != nil || !yield(Change{Shard: s, Owner: owner}) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}
