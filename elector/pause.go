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

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Pause prevents the election of a new leader, for d, or until Resume when d is 0. The current
// leader remains leader, and steps down only on request. A pause survives restarts of all
// candidates. Pause blocks for at most 2.5 s, or 4 s if it is refused while a node hangs. reason is shown to operators; with the operator's name
// (As) it has at most 500 bytes. The history records the pause if the Redis user may write there.
//
// The error is ErrRefused when another operator (As) has already paused the election; an
// operator's own pause is replaced. If nodes did not take the pause, the error holds the NodeError
// of each. It then matches ErrUnreachable when no majority took the pause; otherwise the election
// is paused.
func (el *Election) Pause(ctx context.Context, d time.Duration, reason string) error {
	return el.pause(ctx, d, reason, false)
}

// ReplacePause is like Pause, but also replaces the pause of another operator.
func (el *Election) ReplacePause(ctx context.Context, d time.Duration, reason string) error {
	return el.pause(ctx, d, reason, true)
}

func (el *Election) pause(ctx context.Context, d time.Duration, reason string, replace bool) error {
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
	errs := el.pauseNodes(ctx, note, d, replace)
	if err := pausedByAnother(errs, el.nodes.Majority()); err != nil {
		return err
	}
	err := partialFailure(el.nodes, errs)
	el.record(ctx, Event{Kind: eventPaused, By: note.By, Detail: note.Reason, For: d}, err, func(ctx context.Context) {
		el.channel().Paused(ctx, note.String())
	})
	return err
}

// pausedByAnother returns ErrRefused when a majority of the nodes refused a pause because another
// operator's is in force.
func pausedByAnother(errs []error, majority int) error {
	refusals := 0
	var other *protocol.PausedError
	for _, err := range errs {
		if errors.As(err, &other) {
			refusals++
		}
	}
	if refusals < majority {
		return nil
	}
	return newRefusal("%s", other.Error())
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
	ended, errs := el.resumeNodes(ctx)
	err := partialFailure(el.nodes, errs)
	if !ended {
		el.channel().Resumed(ctx)
		return err
	}
	el.record(ctx, Event{Kind: eventResumed, By: el.operator}, err, el.channel().Resumed)
	return err
}

// partialFailure returns nil when all nodes carried out a request. When only a majority did, the error names
// the nodes that failed, and does not match ErrUnreachable.
func partialFailure(nodes *quorum.Nodes, errs []error) error {
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(errs)-failed < nodes.Majority():
		return noMajority(nodes.Len(), errs)
	default:
		return onNodes(errors.New("not on all nodes, but on a majority"), errs)
	}
}

// pauseNodes makes every node refuse claims, for d, or until Resume if d is 0. Unless replace is set,
// a pause by another operator stays, and that node's error is a protocol.PausedError. If a node
// refuses like this and no majority takes the new pause, the new pause is removed again: otherwise
// two operators could pause the election together while both get the answer that they did not. On nodes
// where it has replaced the same operator's earlier pause it stays: an attempt to change a pause
// must not end it.
func (el *Election) pauseNodes(ctx context.Context, note protocol.PauseNote, d time.Duration, replace bool) []error {
	ns, k, value := el.nodes, el.keys, note.Encode()
	var mine sync.Map // the nodes where it has replaced this operator's own pause
	errs := ns.Each(ctx, statusTimeout, func(ctx context.Context, c redis.UniversalClient) error {
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
			wg.Go(func() { _ = takeBack(ctx, ns.All()[i].Client(), k, value) }) // if that fails: a minority pauses nothing
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

func takeBack(ctx context.Context, c redis.UniversalClient, k protocol.Keys, value string) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if now, err := c.Get(ctx, k.Pause).Result(); err != nil || now != value {
		return err
	}
	return c.Del(ctx, k.Pause).Err()
}

// resumeNodes ends a pause on every node; ended reports whether a node had one.
func (el *Election) resumeNodes(ctx context.Context) (ended bool, errs []error) {
	var removed atomic.Int64
	k := el.keys
	errs = el.nodes.Each(ctx, statusTimeout, func(ctx context.Context, c redis.UniversalClient) error {
		n, err := c.Del(ctx, k.Pause).Result()
		removed.Add(n)
		return rediserr.Needs(err, "+del ~"+k.Pause)
	})
	return removed.Load() > 0, errs
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
