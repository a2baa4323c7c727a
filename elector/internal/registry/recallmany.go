package registry

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Past is what one node has recorded of one election, with its present holder.
type Past struct {
	View

	Entries []Entry // newest first
	Cut     bool    // there may be older entries than were requested
}

const (
	// pipelined is the maximum number of elections that are read in one round trip, and
	// pipelinedEntries that of entries of their histories: thousands of elections must
	// neither cost a round trip each nor one answer of a hundred megabytes.
	pipelined        = 100
	pipelinedEntries = 10_000
	// entriesBefore is how many entries from before since are read: the begin of the term
	// at that time, and what arrived late.
	entriesBefore = 8
)

// RecallMany reads the newest entries of the histories of many elections, back to since
// (the zero time: any), and their holders. It reads all nodes at once, each in pipelines of a
// bounded size, and waits at most limit for each answer. A node that fails is not read
// further, and its remaining elections have that error. Once a majority has been read, the
// other nodes get quorum.WaitFactor times as long as that took, but at least minReadWait. The
// result is by election and node.
func RecallMany(ctx context.Context, ns *quorum.Nodes, keys []protocol.Keys, count int, since time.Time, limit time.Duration) [][]Past {
	type read struct {
		node int
		all  []Past
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	answers := make(chan read, ns.Len()) // buffered: nothing reads a late answer
	all := make([][]Past, len(keys))
	for i := range all {
		all[i] = make([]Past, ns.Len())
	}
	names := ns.Names()
	fill := func(r read) {
		for i := range all {
			p := &all[i][r.node]
			if *p = (Past{View: View{Err: r.err}}); r.all != nil {
				*p = r.all[i]
			}
			p.Node = names[r.node]
			p.Err = ns.NodeError(r.node, p.Err)
		}
	}
	for i, n := range ns.All() {
		fill(read{node: i, err: context.DeadlineExceeded})
		go func() {
			mine, err := recallMany(ctx, n, keys, count, since, limit)
			answers <- read{i, mine, err}
		}()
	}
	var enough <-chan time.Time
	good := 0
	for range ns.Len() {
		select {
		case r := <-answers:
			fill(r)
			if r.err == nil {
				good++
			}
			if good == ns.Majority() && enough == nil {
				enough = time.After(max(minReadWait, quorum.WaitFactor*time.Since(began)))
			}
		case <-enough:
			return all
		}
	}
	return all
}

// recallMany reads all elections from one node. If a part fails, the elections from there on have
// that error.
func recallMany(ctx context.Context, n *quorum.Node, keys []protocol.Keys, count int, since time.Time, limit time.Duration) ([]Past, error) {
	all := make([]Past, len(keys))
	step := max(1, min(pipelined, pipelinedEntries/max(1, count)))
	for from := 0; from < len(keys); from += step {
		part := keys[from:min(from+step, len(keys))]
		if err := recallPart(ctx, n, part, count, since, limit, all[from:]); err != nil {
			for i := from; i < len(keys); i++ {
				all[i].Err = err
			}
			return all, err
		}
	}
	return all, nil
}

// recallPart reads one pipeline. The returned error is the node's; an error of a single election,
// such as a key that another program wrote, goes into that election's Past.
func recallPart(ctx context.Context, n *quorum.Node, keys []protocol.Keys, count int, since time.Time, limit time.Duration, all []Past) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type commands struct {
		before, lock, fence, pause *redis.StringCmd
		pauseLeft                  *redis.DurationCmd
		recent, older              *redis.XMessageSliceCmd
	}
	p := n.Client().Pipeline()
	sent := make([]commands, len(keys))
	from := "-"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	for i, k := range keys {
		c := &sent[i]
		c.before = p.Get(ctx, k.Lock) // read again after the history: a leader that began meanwhile must not look vanished
		c.fence, c.pauseLeft, c.pause = p.Get(ctx, k.Fence), p.PTTL(ctx, k.Pause), p.Get(ctx, k.Pause)
		c.recent = p.XRevRangeN(ctx, k.History, "+", from, int64(count))
		if !since.IsZero() {
			c.older = p.XRevRangeN(ctx, k.History, strconv.FormatInt(since.UnixMilli()-1, 10), "-", entriesBefore)
		}
		c.lock = p.Get(ctx, k.Lock)
	}
	if _, err := p.Exec(ctx); err != nil && !rediserr.Answered(err) {
		return err
	}
	for i, k := range keys {
		c := &sent[i]
		var past Past
		if past.Known = c.fence.Err() == nil; past.Known {
			past.Fence, _ = strconv.ParseUint(c.fence.Val(), 10, 64) // a foreign value counts as 0
		}
		past.Holder = c.lock.Val()
		if past.Holder == "" {
			past.Holder = c.before.Val()
		}
		if past.Foreign = foreignLock(c.lock); past.Foreign != "" {
			past.Holder = ""
		}
		past.Paused, past.Pause, past.PauseLeft = c.pause.Val() != "", c.pause.Val(), positive(c.pauseLeft)
		past.Err = cmp.Or(lockError(c.lock.Err(), k), rediserr.Needs(c.recent.Err(), "+xrevrange %R~"+k.History))
		past.Entries, past.Cut = entriesIn(c.recent.Val()), len(c.recent.Val()) >= count
		if c.older != nil && !past.Cut { // else they would hide that entries in between are missing
			past.Cut = len(c.older.Val()) >= entriesBefore
			past.Entries = append(past.Entries, entriesIn(c.older.Val())...)
		}
		all[i] = past
	}
	return nil
}

// lockError returns why the holder of a lock is not known. A key that does not exist, or is another
// program's, is no error.
func lockError(err error, k protocol.Keys) error {
	if errors.Is(err, redis.Nil) || otherType(err) {
		return nil
	}
	return rediserr.Needs(err, "+get %R~"+k.Lock)
}
