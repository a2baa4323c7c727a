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
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Once runs each tick of a job at most once, although the clocks of hosts differ and the leader changes
// between them, as long as Redis does not lose the mark. Its marks are in one Redis deployment: a single server, Sentinel or
// Cluster. Its calls return when their context ends, also if the client ignores that. Safe for concurrent use. Package
// elector/schedule runs jobs by it; Once itself is for programs with a loop of their own.
type Once struct {
	// Logger logs each gap that is found between ticks, and each run whose leader reported no end; nil: slog.Default. It must not
	// change after the first use.
	Logger *slog.Logger

	client redis.UniversalClient
	keys   string // up to what kind of key it is
}

// NewOnce returns the ticks of an election, such as elector.Elector.Election. Each job has a mark, with an
// expiry. The deployment need not be one that holds the election, but must be the same for all
// candidates. NewOnce does no I/O. It refuses a client that cannot keep a mark, or whose requests may hang for ever.
func NewOnce(client redis.UniversalClient, election interface {
	Prefix() string
	Name() string
},
) (*Once, error) {
	on, err := OnElection(client, election.Prefix(), election.Name())
	if err != nil {
		return nil, err
	}
	if mayHang(client) {
		return nil, errors.New("fence: the client's requests may hang for ever: set its ReadTimeout, or ContextTimeoutEnabled")
	}
	return &Once{client: client, keys: strings.TrimSuffix(on.mark, "fence")}, nil
}

// mayHang reports whether nothing bounds the requests of a client. What wraps one is not looked into.
func mayHang(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		return min(o.ReadTimeout, o.WriteTimeout) < 0 || min(o.ReadTimeout, o.WriteTimeout) == 0 && !o.ContextTimeoutEnabled
	case *redis.ClusterClient: // whose connections ignore contexts without a time-out
		return min(c.Options().ReadTimeout, c.Options().WriteTimeout) <= 0
	}
	return false
}

func (o *Once) mark(job string) string { return o.keys + "tick:" + job }

func (o *Once) jobs() string { return o.keys + "jobs" }

//go:embed once.lua
var onceLua string

var onceScript = redis.NewScript(onceLua)

// Do takes a tick, as Take does, runs f, records how that ended, and returns the error of either. A process that dies after it took
// the tick leaves it undone: at most once. After an [ErrNothingDone] of f the tick may be taken again. Work that must be done exactly
// once takes its tick in its own transaction: see [OnceSQL].
func (o *Once) Do(ctx context.Context, t Tick, f func(ctx context.Context) error) error {
	t.Attempt = cmp.Or(t.Attempt, NewAttempt())
	if _, err := o.Take(ctx, t); err != nil {
		return err
	}
	err, outcome := f(ctx), OK
	switch {
	case errors.Is(err, ErrNothingDone):
		outcome = NothingDone
	case err != nil:
		outcome = Failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if unrecorded := o.End(ctx, t, outcome, err); outcome == NothingDone {
		err = errors.Join(err, unrecorded)
	}
	return err
}

// NewAttempt returns another [Tick.Attempt] each time.
func NewAttempt() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Take returns nil if no tick of the job at or after t has been taken, and none with a newer token: the caller runs
// it then, and nobody else does, and calls End. Otherwise the error is an ErrRan (this tick, or a
// later one, has been taken), an ErrStale (a newer leader has taken a tick), an ErrSkipped (it is too old), an ErrNotDue, or another one;
// after a time-out the tick may have been taken. It makes one round trip, which ctx bounds. Taken is the mark before; without an
// answer it is empty.
func (o *Once) Take(ctx context.Context, t Tick) (Taken, error) {
	t.Attempt = cmp.Or(t.Attempt, NewAttempt())
	if err := t.Check(); err != nil {
		return Taken{}, err
	}
	mode, late := "take", ""
	switch {
	case t.ByHand:
		mode = "hand"
	case t.Missed:
		mode = "meet"
	}
	if t.late() {
		late = "late"
	}
	verdict, mark, err := o.run(ctx, mode, t, late, "", "")
	if err != nil {
		return Taken{}, fmt.Errorf("fence: taking the tick %s of %s: %w", stamp(t.At), t.Job, err)
	}
	switch verdict {
	case "run", "hand":
		return mark, nil
	case "late":
		return mark, t.skipped()
	case "not due":
		return mark, ErrNotDue
	}
	return mark, t.refused(mark)
}

// End records how a run ended, whose tick Take has taken with the same Attempt. It makes one round trip, which ctx bounds.
func (o *Once) End(ctx context.Context, t Tick, outcome Outcome, detail error) error {
	if t.Attempt == "" {
		return errors.New("fence: a run that ends has the Attempt of its Take")
	}
	text := ""
	if detail != nil {
		text = oneLine(fmt.Sprint(detail)) // which survives an Error that panics
	}
	if _, _, err := o.run(ctx, "end", t, "", string(outcome), text); err != nil {
		return fmt.Errorf("fence: recording how the tick %s of %s ended: %w", stamp(t.At), t.Job, err)
	}
	return nil
}

// oneLine is what a mark keeps of a text.
func oneLine(text string) string {
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}
	return strings.Map(printable, strings.ToValidUTF8(text[:min(len(text), 300)], ""))
}

// run runs the script. It returns its verdict, and the mark before.
func (o *Once) run(ctx context.Context, mode string, t Tick, late, outcome, detail string) (string, Taken, error) {
	key := o.mark(t.Job)
	unix := func(at time.Time) int64 { return max(0, at.UnixMilli()) }
	answer, err := await(ctx, func() ([]string, error) {
		return onceScript.Run(ctx, o.client, []string{key, o.jobs()}, mode, t.Job, unix(t.At), unix(t.Prev), unix(t.Next), t.Token, t.Attempt, t.By,
			t.keep().Milliseconds(), late, oneLine(t.Why), outcome, detail).StringSlice()
	})
	if err != nil {
		return "", Taken{}, o.explain(err, key, "a hash, or "+o.jobs()+" another type than a sorted set")
	}
	mark := Taken{Job: t.Job, Mark: key}
	if len(answer) < 3 || len(answer)%2 != 1 {
		return "", mark, fmt.Errorf("unexpected answer %.200q", answer)
	}
	in := map[string]string{}
	for pair := range slices.Chunk(answer[3:], 2) {
		in[pair[0]] = pair[1]
	}
	if len(in) > 0 {
		mark, err = parseMark(key, t.Job, in)
	}
	now, _ := strconv.ParseInt(answer[1], 10, 64)
	if mark.Clock = time.UnixMilli(now); mode != "end" {
		o.log(t, mark, answer[2])
	}
	return answer[0], mark, err
}

// log logs the gaps that a call has found, and a run of another term without an end.
func (o *Once) log(t Tick, mark Taken, gaps string) {
	log := cmp.Or(o.Logger, slog.Default())
	for _, s := range parseGaps(gaps) {
		log.Warn("ticks were not run", "job", t.Job, "first", stamp(s.First), "last", stamp(s.Last), "reason", s.Reason)
	}
	if mark.Running() && mark.Run.Token < t.Token {
		log.Warn("an earlier term reported no end of a run", "job", t.Job, "tick", mark.Run.Tick, "by", mark.Run.By, "token", mark.Run.Token)
	}
}

// await calls f, and returns when that does or ctx ends: go-redis heeds a context only with ContextTimeoutEnabled.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var value, none T
	var err error
	done := make(chan struct{})
	go func() {
		value, err = f()
		close(done)
	}()
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// explain makes the error for a key of another type an ErrForeignMark, and says where the rights are listed.
func (o *Once) explain(err error, key, kind string) error {
	switch {
	case err == nil:
		return nil
	case rediserr.Denied(err):
		return fmt.Errorf("%w (the Redis user lacks a right: docs/redis.md lists those of fence.Once)", err)
	case strings.Contains(err.Error(), "WRONGTYPE"): // miniredis puts more before it
		return &StaleError{Resource: key, Foreign: "another type than " + kind, fix: "delete it"}
	}
	return err
}

// Last returns the mark of a job; the zero Taken if there is none.
func (o *Once) Last(ctx context.Context, job string) (Taken, error) {
	all, err := o.Read(ctx, []string{job})
	if len(all) == 0 {
		return Taken{}, err
	}
	return all[0], err
}

// All returns the marks of all jobs, by name. Marks of other programs are in the error, beside the others.
func (o *Once) All(ctx context.Context) ([]Taken, error) {
	jobs, err := await(ctx, func() ([]string, error) { return o.client.ZRevRange(ctx, o.jobs(), 0, -1).Result() })
	if err != nil {
		return nil, fmt.Errorf("fence: reading the jobs in %s: %w", o.jobs(), o.explain(err, o.jobs(), "a sorted set"))
	}
	slices.Sort(jobs)
	return o.Read(ctx, jobs)
}

// Read returns the marks of jobs, in one round trip, as All does. One that has expired is left out.
func (o *Once) Read(ctx context.Context, jobs []string) (all []Taken, err error) {
	marks, err := await(ctx, func() ([]redis.Cmder, error) {
		return o.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, job := range jobs {
				p.HGetAll(ctx, o.mark(job))
			}
			return nil
		})
	})
	if len(marks) < len(jobs) {
		return nil, fmt.Errorf("fence: reading the ticks of %d jobs: %w", len(jobs), err)
	}
	var errs []error
	for i, job := range jobs {
		fields, err := marks[i].(*redis.MapStringStringCmd).Result()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("fence: reading the tick of %s: %w", legible(job), o.explain(err, o.mark(job), "a hash")))
		case len(fields) > 0:
			mark, err := parseMark(o.mark(job), job, fields)
			if errs = append(errs, err); err == nil {
				all = append(all, mark)
			}
		}
	}
	return all, errors.Join(errs...)
}
