package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// PauseNote is what the key of a pause holds: who paused the election, since when and why.
type PauseNote struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// ParsePauseNote reads the value of the key. What no operator of ours wrote there pauses the
// election as well: it is the reason.
func ParsePauseNote(value string) (n PauseNote) {
	if strings.HasPrefix(value, "{") && len(value) <= MaxMessage && json.Unmarshal([]byte(value), &n) == nil {
		n.By, n.Reason = Clip(n.By, MaxReason), Clip(n.Reason, MaxReason)
		return n
	}
	return PauseNote{Reason: Clip(value, MaxReason)}
}

func (n PauseNote) encode() string {
	b, err := json.Marshal(n)
	if err != nil { // strings, and a time of this century
		panic("quorum: a pause that can't be encoded: " + err.Error())
	}
	return string(b)
}

// String is who paused it and why, for people; never empty.
func (n PauseNote) String() string {
	switch {
	case n.By == "" && n.Reason == "":
		return "no reason given"
	case n.By == "":
		return n.Reason
	case n.Reason == "":
		return "by " + n.By
	default:
		return "by " + n.By + ": " + n.Reason
	}
}

// PausedError is of a node that another operator has paused: it is left as it was.
type PausedError struct{ Note PauseNote }

func (e *PausedError) Error() string {
	since := ""
	if !e.Note.Since.IsZero() {
		since = " since " + e.Note.Since.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("paused already%s (%s)", since, e.Note)
}

// RedisError makes it a redis.Error: the node has answered.
func (*PausedError) RedisError() {}

// Pause makes every node refuse claims, for d, or until Resume when d is 0. A pause by
// another operator stays, unless replace is set: that node's error is a PausedError. If one
// refuses so and no majority takes this pause, it is taken back: else two operators at once
// could pause the election together, while both get the answer that they did not. Where it has
// replaced this operator's own, it stays: an attempt to change a pause must not end it.
func (ns *Nodes) Pause(ctx context.Context, k Keys, note PauseNote, d time.Duration, replace bool, limit time.Duration) []error {
	value := note.encode()
	var mine sync.Map // the nodes where it has replaced this operator's own
	errs := ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return pauseNode(ctx, c, k, note.By, value, d, replace, func() { mine.Store(c, true) })
	})
	var other *PausedError
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
		if _, own := mine.Load(ns.list[i].rdb); err == nil && !own {
			wg.Go(func() { _ = takeBack(ctx, ns.list[i].rdb, k, value, limit) }) // of a minority it pauses nothing
		}
	}
	wg.Wait()
	return errs
}

func pauseNode(ctx context.Context, c redis.UniversalClient, k Keys, by, value string, d time.Duration, replace bool, replacesOwn func()) error {
	if !replace {
		// One step: two operators at once must not replace each other's.
		err := c.SetArgs(ctx, k.Pause, value, redis.SetArgs{Mode: "NX", TTL: d}).Err()
		if !errors.Is(err, redis.Nil) {
			return needs(err, "+set ~"+k.Pause)
		}
		old, err := c.Get(ctx, k.Pause).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return needs(err, "+get ~"+k.Pause)
		}
		if was := ParsePauseNote(old); old != "" && was.By != by {
			return &PausedError{was}
		}
		if old != "" && old != value { // else this one is it: its reply was lost
			replacesOwn()
		}
	}
	return needs(c.Set(ctx, k.Pause, value, d).Err(), "+set ~"+k.Pause)
}

func takeBack(ctx context.Context, c redis.UniversalClient, k Keys, value string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if now, err := c.Get(ctx, k.Pause).Result(); err != nil || now != value {
		return err
	}
	return c.Del(ctx, k.Pause).Err()
}

// Resume ends a pause; ended reports whether a node had one.
func (ns *Nodes) Resume(ctx context.Context, k Keys, limit time.Duration) (ended bool, errs []error) {
	var removed atomic.Int64
	errs = ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		n, err := c.Del(ctx, k.Pause).Result()
		removed.Add(n)
		return needs(err, "+del ~"+k.Pause)
	})
	return removed.Load() > 0, errs
}

// Record appends an operator's action to the history of every node. An operator's Redis user
// may not run scripts.
func (ns *Nodes) Record(ctx context.Context, k Keys, event []byte, limit time.Duration) []error {
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return needs(c.XAdd(ctx, &redis.XAddArgs{
			Stream: k.History, MaxLen: maxEntries, Approx: true, Values: []string{"event", string(event)},
		}).Err(), "+xadd ~"+k.History)
	})
}
