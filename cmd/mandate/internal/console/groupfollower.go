package console

import (
	"context"
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

const (
	groupTimeout = 4 * time.Second        // two time-outs of a node that hangs, one after the other
	groupShare   = 20 * time.Millisecond  // of all groups together: each read of a group is one read of each node
	groupOpen    = 500 * time.Millisecond // between two reads of a group whose map is open
)

// groupFollower keeps one group's entries of the cache up to date. It reads the group as a whole,
// however many shards it has.
type groupFollower struct {
	group     string
	listed    int // elections of shards that Redis lists, which is all that is known of a group without members
	cache     *cache
	attention *attention
	hosts     *hostCache
	turns     turns

	seen *sightings
	last shard.Status // the newest status that was read
	read time.Time    // when last was read; zero: never
}

func (f *groupFollower) run(ctx context.Context, quorum *elector.Quorum, groups int) {
	defer f.cache.drop(f.group)
	defer f.hosts.dropGroup(f.group)
	for {
		at, attention := f.attention.of(f.group)
		f.turns.query(ctx, groupTimeout, func(reading context.Context) {
			st, err := shard.Read(reading, quorum, f.group)
			if ctx.Err() == nil {
				f.look(st, err, at.open, time.Now())
			}
		})
		if !sleep(ctx, readPause) {
			return
		}
		f.wait(ctx, at.open, attention, max(readEvery, time.Duration(groups)*groupShare))
	}
}

// wait returns when the group should be read again.
func (f *groupFollower) wait(ctx context.Context, open bool, attention <-chan struct{}, pause time.Duration) {
	if open {
		pause = groupOpen
	}
	tick := time.NewTimer(pause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			return
		case <-ctx.Done():
			return
		case <-attention: // usually a viewer has opened another election
			var next attended
			if next, attention = f.attention.of(f.group); next.open && !open {
				return
			}
		}
	}
}

// look updates the entries with what was read. If nothing could be read, they keep the last status.
func (f *groupFollower) look(st shard.Status, err error, open bool, now time.Time) {
	row, board := groupRow{Group: f.group, State: groupUnknown, Parts: []groupPart{}}, shardMap{Group: f.group, Members: []groupMember{}, Vacant: []vacantPart{}}
	switch {
	case errors.Is(err, shard.ErrNoGroup):
		f.read = time.Time{}
		row.State, row.Shards, row.Unowned = groupEmpty, f.listed, f.listed
		board.Shards, board.Error = f.listed, "no member lives: its members are gone for two leases or more"
		f.hosts.dropGroup(f.group)
	case err == nil:
		f.last, f.read = st, now
		f.seen.look(st, now)
		f.hosts.grouped(st)
	default:
		row.Error, board.Error = cut(problemText(err), rowDetail), problemText(err)
	}
	if !f.read.IsZero() {
		failed := row.Error
		row, board = groupRowOf(f.last, f.seen, f.read), shardMapOf(f.last, f.seen, f.read)
		if failed != "" {
			row.Error, row.AsOfMS = failed, f.read.UnixMilli()
			board.Error, board.AsOfMS = problemText(err), f.read.UnixMilli()
		}
	}
	f.cache.set(kindGroup, f.group, row)
	if open {
		f.cache.set(kindShards, f.group, board)
	} else {
		f.cache.forget(f.group)
	}
}
