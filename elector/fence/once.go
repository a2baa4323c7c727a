package fence

import (
	"context"
	"crypto/rand"
	_ "embed" // the script
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// ErrRan means that a tick was not run: this tick of the job, or a later one, has been taken before. The error
// itself is a [*RanError].
var ErrRan = errors.New("fence: the tick has been taken")

// Tick is one run of a job that a schedule asks for.
type Tick struct {
	// Job is the name of the job: 1 to 255 printable characters without braces.
	Job string
	// At is the ideal time of the tick: what the schedule says, not what the clock says when the job is
	// started. Clocks of hosts differ, and so would the tick. It counts in milliseconds.
	At time.Time
	// Every is the time to the next tick of the job; where it varies, the longest. A tick further ahead than that
	// (at least a minute) is refused: a mistake would block the job until then.
	Every time.Duration
	// Token is that of the term that runs the tick (elector.Term.Token).
	Token uint64
	// By names who runs it, such as the candidate, for operators; at most 255 bytes.
	By string
	// Retry lets a tick whose function returned an error run again. A tick whose process died never runs
	// again.
	Retry bool
}

// Taken is the newest tick of a job that was taken.
type Taken struct {
	Job    string
	Tick   time.Time // its ideal time
	At     time.Time // when it was taken, by the clock of Redis or, for SQL, of who took it
	Every  time.Duration
	Token  uint64
	By     string
	Failed bool // its function returned an error, and it may run again
}

// Overdue returns for how long the next tick has been due; zero: it is not.
func (t Taken) Overdue(now time.Time) time.Duration { return max(0, now.Sub(t.Tick.Add(t.Every))) }

// RanError is an [ErrRan] with its details.
type RanError struct {
	Tick  time.Time // that was not run
	Taken Taken     // the newest one that was
}

// Error says which tick was taken, by whom and when.
func (e *RanError) Error() string {
	return fmt.Sprintf("fence: the tick %s of %s is not run: that of %s was taken at %s by %s with token %d",
		stamp(e.Tick), e.Taken.Job, stamp(e.Taken.Tick), stamp(e.Taken.At), e.Taken.By, e.Taken.Token)
}

// Is makes errors.Is(err, ErrRan) true.
func (e *RanError) Is(target error) bool { return target == ErrRan }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Once runs each tick of a job at most once, although the clocks of hosts differ and the leader changes
// between them, as long as Redis does not lose the mark. Its marks are in one Redis deployment: a single server, Sentinel or Cluster. Safe for concurrent use.
type Once struct {
	client redis.UniversalClient
	key    string
}

// NewOnce returns the ticks of an election, all under one key, with an expiry. An empty prefix means
// "mandate". The deployment need not be one that holds the election, but must be the same for all
// candidates. NewOnce does no I/O.
func NewOnce(client redis.UniversalClient, prefix, election string) (*Once, error) {
	on, err := OnElection(client, prefix, election)
	if err != nil {
		return nil, err
	}
	return &Once{client: client, key: strings.TrimSuffix(on.mark, "fence") + "ticks"}, nil
}

// keptBeyond is how much longer than two periods a mark is kept: as long as Redis may need for a clock that
// was wrong.
const keptBeyond = 24 * time.Hour

// maxJobs is the maximum number of jobs of one election: names that change with every run (with a date in
// them) would fill Redis.
const maxJobs = 1000

//go:embed once.lua
var onceLua string

var onceScript = redis.NewScript(onceLua)

// Do takes a tick, as Take does, then runs f, and returns the error of either. A process that dies after it took
// the tick leaves it undone: at most once. Work that must be done exactly once takes its tick in its own
// transaction: see [OnceSQL].
func (o *Once) Do(ctx context.Context, t Tick, f func(ctx context.Context) error) error {
	attempt := newAttempt()
	if err := o.take(ctx, t, attempt); err != nil {
		return err
	}
	err := f(ctx)
	if err == nil || !t.Retry {
		return err
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, failed := o.run(back, t.Job, "", 0, 0, attempt); failed != nil {
		return errors.Join(err, fmt.Errorf("fence: the tick can't run again: giving it back: %w", failed))
	}
	return err
}

func newAttempt() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Take returns nil if no tick of the job at or after t has been taken, and none with a newer token: the caller runs
// it then, and nobody else does, so Retry has no effect. Otherwise the error is a [*RanError] (this tick, or a
// later one, has been taken), a [*StaleError] (a newer leader has taken a tick), or another one; after a time-out
// the tick may have been taken. It makes one round trip, which ctx bounds.
func (o *Once) Take(ctx context.Context, t Tick) error { return o.take(ctx, t, newAttempt()) }

// take takes a tick for an attempt. The same attempt may take it twice: go-redis repeats a command whose answer
// was lost.
func (o *Once) take(ctx context.Context, t Tick, attempt string) error {
	if err := t.check(); err != nil {
		return err
	}
	keep := 2*t.Every + keptBeyond
	answer, err := o.run(ctx, t.Job, t.At.UnixMilli(), t.Every.Milliseconds(), t.Token, attempt, t.By, keep.Milliseconds(), maxJobs)
	if err != nil {
		return fmt.Errorf("fence: taking the tick %s of %s: %w", stamp(t.At), t.Job, err)
	}
	switch answer[0] {
	case "taken":
		return nil
	case "early":
		return t.tooEarly("Redis' clock")
	case "late":
		return fmt.Errorf("fence: the tick %s of %s is too old: whether it ran is no longer known", stamp(t.At), t.Job)
	case "many":
		return fmt.Errorf("fence: %s holds the ticks of %d jobs, and has no room for %s: name each job the same at every tick; HDEL removes old ones", o.key, maxJobs, t.Job)
	}
	return t.refused(o.key, answer[1])
}

// run runs the script.
func (o *Once) run(ctx context.Context, args ...any) ([]string, error) {
	answer, err := onceScript.Run(ctx, o.client, []string{o.key}, args...).StringSlice()
	if err == nil && len(answer) != 2 {
		err = fmt.Errorf("unexpected answer %q", answer)
	}
	return answer, o.explain(err)
}

// explain makes the error for a key of another type an ErrForeignMark, and says where the rights are listed.
func (o *Once) explain(err error) error {
	if err == nil {
		return nil
	}
	// From within a script Redis 7.0 says the second, later versions and Valkey the third.
	if text := err.Error(); strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run this command") || strings.Contains(text, "ACL failure in script") {
		return fmt.Errorf("%w (the Redis user lacks a right: docs/redis.md lists those of fence.Once)", err)
	} else if !strings.Contains(text, "WRONGTYPE") { // miniredis puts more before it
		return err
	}
	return fmt.Errorf("%w: the key %s belongs to another program: find out which, then delete it", ErrForeignMark, o.key)
}

// Last returns the newest tick of a job that was taken; the zero Taken if there is none.
func (o *Once) Last(ctx context.Context, job string) (Taken, error) {
	mark, err := o.client.HGet(ctx, o.key, job).Result()
	if errors.Is(err, redis.Nil) {
		return Taken{}, nil
	}
	if err != nil {
		return Taken{}, fmt.Errorf("fence: reading the tick of %s: %w", job, o.explain(err))
	}
	return parseTaken(o.key, job, mark)
}

// All returns the newest tick of each job that was taken, by name. Marks of other programs are in the error, beside the
// others.
func (o *Once) All(ctx context.Context) ([]Taken, error) {
	marks, err := o.client.HGetAll(ctx, o.key).Result()
	if err != nil {
		return nil, fmt.Errorf("fence: reading the ticks in %s: %w", o.key, o.explain(err))
	}
	var all []Taken
	var foreign []error
	for job, mark := range marks {
		t, err := parseTaken(o.key, job, mark)
		if err != nil {
			foreign = append(foreign, err)
			continue
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Taken) int { return strings.Compare(a.Job, b.Job) })
	return all, errors.Join(foreign...)
}

// check returns what is wrong with a tick, before anything is sent.
func (t Tick) check() error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '{' || r == '}' || r == unicode.ReplacementChar }
	switch {
	case t.Job == "" || len(t.Job) > 255 || strings.ContainsFunc(t.Job, odd):
		return fmt.Errorf("fence: job %.40q: a job has a name of 1 to 255 printable bytes, without braces", t.Job)
	case t.At.UnixMilli() <= 0:
		return fmt.Errorf("fence: job %s: a tick needs the time of its schedule, not %v", t.Job, t.At)
	case t.Every < time.Millisecond || t.Every > maxEvery:
		return fmt.Errorf("fence: job %s: Every is %v: give the longest time between two of its ticks, 1ms to %v", t.Job, t.Every, maxEvery)
	case len(t.By) > 255 || strings.ContainsFunc(t.By, unicode.IsControl):
		return fmt.Errorf("fence: job %s: By is at most 255 printable bytes, not %d", t.Job, len(t.By))
	}
	return checkToken(t.Token)
}

// maxEvery is the longest period of a schedule: four years between two 29ths of February, twice over 1900 and 2100.
const maxEvery = 8 * 366 * 24 * time.Hour

func (t Tick) tooEarly(clock string) error {
	return fmt.Errorf("fence: the tick %s of %s is more than a period (%v) ahead of %s: it would block the job until then",
		stamp(t.At), t.Job, t.Every, clock)
}

// refused returns why a mark refuses the tick.
func (t Tick) refused(where, mark string) error {
	taken, err := parseTaken(where, t.Job, mark)
	switch {
	case err != nil:
		return err
	case t.Token < taken.Token:
		return &StaleError{Resource: where + " " + t.Job, Token: t.Token, Newest: taken.Token}
	}
	return &RanError{Tick: t.At, Taken: taken}
}

// aMark is tick, every, token, when it was taken, the attempt, failed or taken, by whom; times in milliseconds.
// The script allows as many digits: its numbers are exact up to 2^53, and times end before the year 5139, periods at 31 years.
var aMark = regexp.MustCompile(`(?s)^(\d{1,14}) (\d{1,12}) (\d{1,16}) (\d{1,14}) [[:xdigit:]]+ (taken|failed) (.*)$`)

// parseTaken parses a mark. One that no Once has written is an ErrForeignMark.
func parseTaken(where, job, mark string) (Taken, error) {
	f := aMark.FindStringSubmatch(mark)
	var n [5]int64 // tick, every, token, when it was taken, from 1 on
	for i := 1; f != nil && i < len(n); i++ {
		n[i], _ = strconv.ParseInt(f[i], 10, 64)
	}
	if f == nil {
		return Taken{}, fmt.Errorf("%w: job %s in %s holds %q, which is no tick: find out what else writes there, then delete it",
			ErrForeignMark, legible(job), where, legible(mark))
	}
	return Taken{
		Job: job, Tick: time.UnixMilli(n[1]), Every: time.Duration(n[2]) * time.Millisecond, Token: uint64(n[3]),
		At: time.UnixMilli(n[4]), Failed: f[5] == "failed", By: f[6],
	}, nil
}

// Latest returns the newest tick of a schedule, and the time from it to the next one, for [Tick]. next returns the
// first tick after a time, as the Next of robfig/cron's schedules does; a schedule whose ticks depend on when
// a process began has no ideal times. The tick is never later than now: whoever took the coming one early would lose the one
// that was missed. It fails if the schedule has had no tick for eight years, or has no next one.
func Latest(next func(time.Time) time.Time, now time.Time) (tick time.Time, every time.Duration, err error) {
	for back := time.Minute; back < 2*maxEvery; back *= 2 {
		first := next(now.Add(-back))
		if first.IsZero() {
			break
		}
		if first.After(now) {
			continue
		}
		tick = first
		for n := next(tick); ; n = next(tick) {
			every = n.Sub(tick)
			if every <= 0 {
				return tick, 0, errors.New("fence: the schedule has no next tick")
			}
			if n.After(now) {
				return tick, every, nil
			}
			tick = n
		}
	}
	return time.Time{}, 0, errors.New("fence: the schedule has had no tick yet")
}
