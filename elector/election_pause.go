package elector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Pause prevents the election of a new leader, for d, or until Resume when d is 0. The current
// leader remains leader, and steps down only on request. A pause survives restarts of all
// candidates. It replaces the pause before it, also another operator's, which Status shows. reason is
// shown to operators; with the operator's name (As) it has at most 500 bytes. The history records the
// pause if the Redis user may write there. Pause blocks for at most 2.5 s.
//
// If nodes did not take the pause, the error holds the NodeError of each. It then matches
// ErrUnreachable when no majority took the pause; otherwise the election is paused.
func (el *Election) Pause(ctx context.Context, d time.Duration, reason string) error {
	if d < 0 || d > 0 && d < time.Millisecond {
		return fmt.Errorf("a pause of %v: give at least a millisecond, or 0 for no end", d)
	}
	if err := checkReason(el.signed(reason)); err != nil {
		return err
	}
	if err := checkOpen(el.nodes); err != nil {
		return err
	}
	note := protocol.PauseNote{By: el.operator, Reason: strings.ToValidUTF8(reason, "?"), Since: time.Now().UTC().Truncate(time.Millisecond)}
	key := el.keys.Pause
	err := partialFailure(el.nodes, el.nodes.Each(ctx, statusTimeout, func(ctx context.Context, c redis.UniversalClient) error {
		return rediserr.Needs(c.Set(ctx, key, note.Encode(), d).Err(), "+set ~"+key)
	}))
	el.record(ctx, Event{Kind: eventPaused, By: note.By, Detail: note.Reason, For: d}, err, func(ctx context.Context) {
		el.channel().Paused(ctx, note.String())
	})
	return err
}

// record writes an operator's action to the history of all nodes and at the same time calls notify,
// which notifies the candidates. err is the error of the action: an action that no majority carried
// out is not recorded.
func (el *Election) record(ctx context.Context, ev Event, err error, notify func(context.Context)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if !errors.Is(err, ErrUnreachable) {
		ev.Version, ev.Election, ev.Time = eventVersion, el.name, time.Now().Round(0).UTC()
		// Best effort: a user that may not write the history can pause nevertheless.
		wg.Go(func() { el.append(ctx, ev.encode()) })
	}
	notify(ctx)
}

// recordTimeout bounds the recording of an operator's action. It is no longer than the time-out of
// notifying the candidates, which runs at the same time.
const recordTimeout = time.Second

func checkReason(s string) error {
	if len(s) > protocol.MaxReason {
		return fmt.Errorf("a reason of %d bytes: at most %d", len(s), protocol.MaxReason)
	}
	return nil
}

// Resume ends a pause, and wakes the candidates that wait for its end. It is no error if the
// election was not paused. Bounds and errors are those of Pause.
func (el *Election) Resume(ctx context.Context) error {
	if err := checkOpen(el.nodes); err != nil {
		return err
	}
	var removed atomic.Int64
	key := el.keys.Pause
	err := partialFailure(el.nodes, el.nodes.Each(ctx, statusTimeout, func(ctx context.Context, c redis.UniversalClient) error {
		n, err := c.Del(ctx, key).Result()
		removed.Add(n)
		return rediserr.Needs(err, "+del ~"+key)
	}))
	if removed.Load() == 0 {
		el.channel().Resumed(ctx)
		return err
	}
	el.record(ctx, Event{Kind: eventResumed, By: el.operator}, err, el.channel().Resumed)
	return err
}

// partialFailure returns nil when all nodes carried out a request. When only a majority did, the error names
// the nodes that failed, and does not match ErrUnreachable.
func partialFailure(nodes *nodes.Nodes, errs []error) error {
	switch done := answersOf(errs); {
	case done == len(errs):
		return nil
	case done < nodes.Majority():
		return noMajority(nodes.Len(), errs)
	default:
		return onNodes(errors.New("not on all nodes, but on a majority"), errs)
	}
}

// append appends an operator's action to the history of every node. It uses no script, since an
// operator's Redis user may lack the right to run one.
func (el *Election) append(ctx context.Context, event []byte) {
	k := el.keys
	el.nodes.Each(ctx, recordTimeout, func(ctx context.Context, c redis.UniversalClient) error {
		p := c.Pipeline()
		p.XAdd(ctx, &redis.XAddArgs{
			Stream: k.History, MaxLen: protocol.MaxEntries, Approx: true, Values: []string{"event", string(event)},
		})
		p.PExpire(ctx, k.History, protocol.KeptFor)
		_, err := p.Exec(ctx)
		return err
	})
}
