package registry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Pause makes every node refuse claims, for d, or until Resume if d is 0. Unless replace is set,
// a pause by another operator stays, and that node's error is a protocol.PausedError. If a node
// refuses like this and no majority takes the new pause, the new pause is removed again: otherwise
// two operators could pause the election together while both get the answer that they did not. On nodes
// where it has replaced the same operator's earlier pause it stays: an attempt to change a pause
// must not end it.
func Pause(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, note protocol.PauseNote, d time.Duration, replace bool, limit time.Duration) []error {
	value := note.Encode()
	var mine sync.Map // the nodes where it has replaced this operator's own pause
	errs := ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return pauseNode(ctx, c, k, note.By, value, d, replace, func() { mine.Store(c, true) })
	})
	var other *protocol.PausedError
	refused, taken := 0, 0
	for _, err := range errs {
		switch {
		case err == nil:
			taken++
		case errors.As(err, &other):
			refused++
		}
	}
	if refused == 0 || taken >= ns.Majority() {
		return errs
	}
	var wg sync.WaitGroup
	for i, err := range errs {
		if _, own := mine.Load(ns.All()[i].Client()); err == nil && !own {
			wg.Go(func() { _ = takeBack(ctx, ns.All()[i].Client(), k, value, limit) }) // if that fails: a minority pauses nothing
		}
	}
	wg.Wait()
	return errs
}

func pauseNode(ctx context.Context, c redis.UniversalClient, k protocol.Keys, by, value string, d time.Duration, replace bool, replacesOwn func()) error {
	if !replace {
		// One step: two operators at the same time must not replace each other's pause.
		err := c.SetArgs(ctx, k.Pause, value, redis.SetArgs{Mode: "NX", TTL: d}).Err()
		if !rediserr.Missing(err) {
			return rediserr.Needs(err, "+set ~"+k.Pause)
		}
		old, err := c.Get(ctx, k.Pause).Result()
		if err != nil && !rediserr.Missing(err) {
			return rediserr.Needs(err, "+get ~"+k.Pause)
		}
		if was := protocol.ParsePauseNote(old); old != "" && was.By != by {
			return &protocol.PausedError{Note: was}
		}
		if old != "" && old != value { // else it is this pause, whose first reply was lost
			replacesOwn()
		}
	}
	return rediserr.Needs(c.Set(ctx, k.Pause, value, d).Err(), "+set ~"+k.Pause)
}

func takeBack(ctx context.Context, c redis.UniversalClient, k protocol.Keys, value string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if now, err := c.Get(ctx, k.Pause).Result(); err != nil || now != value {
		return err
	}
	return c.Del(ctx, k.Pause).Err()
}

// Resume ends a pause on every node; ended reports whether a node had one.
func Resume(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit time.Duration) (ended bool, errs []error) {
	var removed atomic.Int64
	errs = ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		n, err := c.Del(ctx, k.Pause).Result()
		removed.Add(n)
		return rediserr.Needs(err, "+del ~"+k.Pause)
	})
	return removed.Load() > 0, errs
}

// Record appends an operator's action to the history of every node. It uses no script, since an
// operator's Redis user may lack the right to run one.
func Record(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, event []byte, limit time.Duration) {
	ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return c.XAdd(ctx, &redis.XAddArgs{
			Stream: k.History, MaxLen: protocol.MaxEntries, Approx: true, Values: []string{"event", string(event)},
		}).Err()
	})
}
