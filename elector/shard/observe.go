package shard

import (
	"context"
	"iter"
)

// Change is a change of a shard's owner, as this member knows it.
type Change struct {
	Shard int
	Owner Owner // the zero value: no member
}

// Observe yields the owner of each shard that has one, and then every change of Owner, until ctx
// ends or the loop is left. If a shard's owner changes again before the loop has taken the change,
// Observe yields only the last one. It does no I/O, and there are changes only while Run runs. Like
// Owner, it gives hints.
func (m *Member) Observe(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		last := make([]Owner, m.cfg.Shards)
		for {
			changed := m.changes() // before the owners are read, so that no change is missed
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
