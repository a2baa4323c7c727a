package fence

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // the script
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Once runs each tick of a job at most once, although the clocks of hosts differ and the leader changes
// between them, as long as Redis does not lose the mark. Its marks are in one Redis deployment: a single server, Sentinel or
// Cluster. Its calls return when their context ends, also if the client ignores that. Safe for concurrent use.
type Once struct {
	// Logger logs each gap that is found between ticks; nil: slog.Default. It must not change after the first use.
	Logger *slog.Logger

	client redis.UniversalClient
	keys   string // up to what kind of key it is
}

// NewOnce returns the ticks of an election, such as elector.Elector.Election. Each job has a mark, with an
// expiry. The deployment need not be one that holds the election, but must be the same for all
// candidates. NewOnce does no I/O.
func NewOnce(client redis.UniversalClient, election interface {
	Prefix() string
	Name() string
},
) (*Once, error) {
	on, err := OnElection(client, election.Prefix(), election.Name())
	if err != nil {
		return nil, err
	}
	return &Once{client: client, keys: strings.TrimSuffix(on.mark, "fence")}, nil
}

func (o *Once) mark(job string) string { return o.keys + "tick:" + job }

func (o *Once) jobs() string { return o.keys + "jobs" }

// keptBeyond is how much longer than two periods, and than it may run late, a mark is kept: as long as Redis may
// need for a clock that was wrong.
const keptBeyond = 24 * time.Hour

//go:embed once.lua
var onceLua string

var onceScript = redis.NewScript(onceLua)

// Do takes a tick, as Take does, then runs f, and returns the error of either. A process that dies after it took
// the tick leaves it undone: at most once. Work that must be done exactly once takes its tick in its own
// transaction: see [OnceSQL].
func (o *Once) Do(ctx context.Context, t Tick, f func(ctx context.Context) error) error {
	t.Attempt = cmp.Or(t.Attempt, NewAttempt())
	if err := o.Take(ctx, t); err != nil {
		return err
	}
	err := f(ctx)
	if err == nil || !t.Retry {
		return err
	}
	return errors.Join(err, o.GiveBack(ctx, t))
}

// GiveBack lets a tick run again that Take took with the same Attempt, and that was not run. It waits for 1 s at most,
// also if ctx has ended.
func (o *Once) GiveBack(ctx context.Context, t Tick) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := o.run(ctx, "back", t); err != nil {
		return fmt.Errorf("fence: the tick %s of %s can't run again: giving it back: %w", stamp(t.At), t.Job, err)
	}
	return nil
}

// NewAttempt returns another [Tick.Attempt] each time.
func NewAttempt() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Take returns nil if no tick of the job at or after t has been taken, and none with a newer token: the caller runs
// it then, and nobody else does, so Retry has no effect. Otherwise the error is a [*RanError] (this tick, or a
// later one, has been taken), a [*StaleError] (a newer leader has taken a tick), a [*SkippedError] (it is too old), or another one;
// after a time-out the tick may have been taken. It makes one round trip, which ctx bounds.
func (o *Once) Take(ctx context.Context, t Tick) error {
	t.Attempt = cmp.Or(t.Attempt, NewAttempt())
	if err := t.Check(); err != nil {
		return err
	}
	answer, err := o.run(ctx, "take", t)
	if err != nil {
		return fmt.Errorf("fence: taking the tick %s of %s: %w", stamp(t.At), t.Job, err)
	}
	switch answer[0] {
	case "taken":
		o.logGap(t.Job, answer[1])
		return nil
	case "early":
		return t.tooEarly("Redis' clock")
	case "old":
		o.logGap(t.Job, answer[1])
		return t.skipped()
	}
	return t.refused(o.mark(t.Job), answer[1])
}

// logGap logs a gap as the script describes it, if there is one.
func (o *Once) logGap(job, gap string) {
	log := o.Logger
	if log == nil {
		log = slog.Default()
	}
	if s, _ := parseGap(gap); s != nil {
		log.Warn("ticks were not run", "job", job, "after", stamp(s.After), "until", stamp(s.Until), "reason", s.Reason)
	}
}

// Missed reports whether the tick, the newest one that is due, has neither been taken nor skipped, or was given back: nobody led, or Redis did
// not answer. A job that is not known yet has missed nothing; from now on it is known, so that its first tick can be missed.
func (o *Once) Missed(ctx context.Context, t Tick) (bool, error) {
	t.Attempt = cmp.Or(t.Attempt, NewAttempt())
	if err := t.Check(); err != nil {
		return false, err
	}
	answer, err := o.run(ctx, "meet", t)
	if err != nil {
		return false, fmt.Errorf("fence: looking for missed ticks of %s: %w", t.Job, err)
	}
	if answer[0] != "known" && answer[0] != "foreign" {
		return false, nil
	}
	last, err := parseTaken(o.mark(t.Job), t.Job, answer[1])
	at := t.At.Truncate(time.Millisecond)
	due := last.until().Before(at) && !at.Before(last.Tick.Add(last.Every)) // else the schedule has changed: it was not due
	return err == nil && (due || last.Failed && last.Tick.Equal(at)), err
}

// until returns the newest tick that was taken or skipped.
func (t Taken) until() time.Time {
	if len(t.Skipped) > 0 && t.Skipped[0].Until.After(t.Tick) {
		return t.Skipped[0].Until
	}
	return t.Tick
}

// run runs the script.
func (o *Once) run(ctx context.Context, mode string, t Tick) ([]string, error) {
	keep := 2*t.Every + t.within() + keptBeyond
	answer, err := await(ctx, func() ([]string, error) {
		return onceScript.Run(ctx, o.client, []string{o.mark(t.Job), o.jobs()}, mode, t.Job, t.At.UnixMilli(), t.Every.Milliseconds(), t.Token, t.Attempt, t.By,
			keep.Milliseconds(), t.within().Milliseconds(), max(0, t.Prev.UnixMilli()), t.Why).StringSlice()
	})
	if err == nil && len(answer) != 2 {
		err = fmt.Errorf("unexpected answer %q", answer)
	}
	return answer, o.explain(err, o.mark(t.Job))
}

// await calls f, and returns when that does or ctx ends: go-redis heeds a context only with ContextTimeoutEnabled.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// explain makes the error for a key of another type an ErrForeignMark, and says where the rights are listed.
func (o *Once) explain(err error, key string) error {
	if err == nil {
		return nil
	}
	if rediserr.Denied(err) {
		return fmt.Errorf("%w (the Redis user lacks a right: docs/redis.md lists those of fence.Once)", err)
	} else if !strings.Contains(err.Error(), "WRONGTYPE") { // miniredis puts more before it
		return err
	}
	return fmt.Errorf("%w: the key %s belongs to another program: find out which, then delete it", ErrForeignMark, key)
}

// Last returns the newest tick of a job that was taken; the zero Taken if there is none.
func (o *Once) Last(ctx context.Context, job string) (Taken, error) {
	key := o.mark(job)
	mark, err := await(ctx, func() (string, error) { return o.client.Get(ctx, key).Result() })
	if errors.Is(err, redis.Nil) {
		return Taken{}, nil
	}
	if err != nil {
		return Taken{}, fmt.Errorf("fence: reading the tick of %s: %w", job, o.explain(err, key))
	}
	return parseTaken(key, job, mark)
}

// All returns the newest tick of each job that was taken, by name. Marks of other programs are in the error, beside the
// others.
func (o *Once) All(ctx context.Context) ([]Taken, error) {
	jobs, err := await(ctx, func() ([]string, error) { return o.client.ZRevRange(ctx, o.jobs(), 0, -1).Result() })
	if err != nil {
		return nil, fmt.Errorf("fence: reading the jobs in %s: %w", o.jobs(), o.explain(err, o.jobs()))
	}
	slices.Sort(jobs)
	marks, err := await(ctx, func() ([]redis.Cmder, error) {
		return o.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, job := range jobs {
				p.Get(ctx, o.mark(job))
			}
			return nil
		})
	})
	if len(marks) < len(jobs) {
		return nil, fmt.Errorf("fence: reading the ticks of %d jobs: %w", len(jobs), err)
	}
	var all []Taken
	var errs []error
	for i, job := range jobs {
		mark, err := marks[i].(*redis.StringCmd).Result()
		if errors.Is(err, redis.Nil) { // its mark has expired
			continue
		}
		t, foreign := parseTaken(o.mark(job), job, mark)
		if err = cmp.Or(o.explain(err, o.mark(job)), foreign); err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, t)
	}
	return all, errors.Join(errs...)
}
