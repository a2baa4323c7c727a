package fence

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ErrRan means that a tick was not run: this tick of the job, or a later one, has been taken before. The error
// itself is a [*RanError].
var ErrRan = errors.New("fence: the tick has been taken")

// ErrSkipped means that a tick was not run because it is older than its Within. The error itself is a [*SkippedError].
var ErrSkipped = errors.New("fence: the tick is too old")

// Tick is one run of a job that a schedule asks for. [Latest] makes one of a schedule, without Job and Token.
type Tick struct {
	// Job is the name of the job: 1 to 255 printable bytes without braces, the same at every tick. There may be as many as one
	// likes: the mark of a job that is gone expires.
	Job string
	// At is the ideal time of the tick: what the schedule says, not what the clock says when the job is
	// started. Clocks of hosts differ, and so would the tick. It counts in milliseconds.
	At time.Time
	// Every is the time to the next tick of the job, or the longest: what is sooner was not due, as when the schedule has changed.
	// A tick further ahead of Redis' clock than that (at least a minute) is refused: a mistake would block the job until then.
	Every time.Duration
	// Prev is the time of the tick before. If the newest one that was taken is older, the mark records what was
	// skipped in between ([Taken.Skipped]), with Why as the reason. Zero: nothing is recorded.
	Prev time.Time
	Why  string
	// Within is how late a tick may be taken, by the clock of Redis; then it is refused with an [ErrSkipped], and recorded as
	// skipped. 0: an hour, which is more than a failover, a deploy or an outage that somebody attends to; a job of the
	// night should not begin in the morning, and cron runs none late.
	Within time.Duration
	// Token is that of the term that runs the tick (elector.Term.Token).
	Token uint64
	// By names who runs it, such as the candidate, for operators; at most 255 bytes.
	By string
	// Retry lets a tick whose function returned an error run again. A tick whose process died never runs
	// again.
	Retry bool
	// Attempt makes Take idempotent: whoever repeats it after a time-out sets the same one, from NewAttempt, also for a later tick: a tick
	// that was taken only when its sender had given up was not run, and is recorded as skipped. After any answer another one is due.
	// Empty: each call is another.
	Attempt string
}

// Taken is the newest tick of a job that was taken.
type Taken struct {
	Job     string
	Mark    string    // where it is kept: a key, or the table
	Tick    time.Time // its ideal time
	At      time.Time // when it was taken, by the clock of Redis or, for SQL, of who took it
	Every   time.Duration
	Token   uint64
	By      string
	Failed  bool   // its function returned an error, and it may run again
	Never   bool   // none has been taken yet: Tick is the last one before the job was made known
	Skipped []Skip // the newest 20 gaps, the newest first
}

// Skip is a gap between ticks: those after After, until and with Until, were not run.
type Skip struct {
	After, Until time.Time
	Found        time.Time // when that was found, by the clock of Redis
	Reason       string
}

// Overdue returns for how long the next tick has been due; zero: it is not.
func (t Taken) Overdue(now time.Time) time.Duration { return max(0, now.Sub(t.Tick.Add(t.Every))) }

// Blocked returns for how long the job can't run, because its mark is in the future by more than a tick: a clock was wrong
// when it was taken. Deleting the mark ends it. Zero: it can.
func (t Taken) Blocked(now time.Time) time.Duration {
	if ahead := t.Tick.Sub(now); ahead > max(t.Every, time.Minute) {
		return ahead
	}
	return 0
}

// RanError is an [ErrRan] with its details.
type RanError struct {
	Tick  time.Time // that was not run
	Taken Taken     // the newest one that was
}

// Error says which tick was taken, by whom and when, and what to do if that one can't be.
func (e *RanError) Error() string {
	text := fmt.Sprintf("fence: the tick %s of %s is not run: that of %s was taken at %s by %s with token %d",
		stamp(e.Tick), e.Taken.Job, stamp(e.Taken.Tick), stamp(e.Taken.At), e.Taken.By, e.Taken.Token)
	if ahead := e.Taken.Blocked(time.Now()); ahead > 0 {
		text += fmt.Sprintf(": that is %v ahead: if a clock was wrong then, delete the mark in %s", ahead.Round(time.Second), e.Taken.Mark)
	}
	return text
}

// Is makes errors.Is(err, ErrRan) true.
func (e *RanError) Is(target error) bool { return target == ErrRan }

// SkippedError is an [ErrSkipped] with its details.
type SkippedError struct {
	Job    string
	Tick   time.Time
	Within time.Duration
}

// Error says which tick was skipped.
func (e *SkippedError) Error() string {
	return fmt.Sprintf("fence: the tick %s of %s is skipped: it is older than %v", stamp(e.Tick), e.Job, e.Within)
}

// Is makes errors.Is(err, ErrSkipped) true.
func (e *SkippedError) Is(target error) bool { return target == ErrSkipped }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Check returns what is wrong with a tick, without asking Redis.
func (t Tick) Check() error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '{' || r == '}' || r == unicode.ReplacementChar }
	switch {
	case t.Job == "" || len(t.Job) > 255 || strings.ContainsFunc(t.Job, odd):
		return fmt.Errorf("fence: job %.40q: a job has a name of 1 to 255 printable bytes, without braces", t.Job)
	case t.At.UnixMilli() <= 0:
		return fmt.Errorf("fence: job %s: a tick needs the time of its schedule, not %v", t.Job, t.At)
	case t.Every < time.Millisecond || t.Every > maxEvery:
		return fmt.Errorf("fence: job %s: Every is %v: give the longest time between two of its ticks, 1ms to %v", t.Job, t.Every, maxEvery)
	case len(t.By) > 255 || len(t.Why) > 255 || strings.ContainsFunc(t.By+t.Why, unicode.IsControl):
		return fmt.Errorf("fence: job %s: By and Why are at most 255 printable bytes, not %d and %d", t.Job, len(t.By), len(t.Why))
	case t.Within != 0 && t.Within < time.Millisecond || t.Within > maxEvery: // 3600 is 3.6 us: no tick would run
		return fmt.Errorf("fence: job %s: Within is %v: give how late a tick may run, at least 1ms, or 0 for an hour", t.Job, t.Within)
	}
	return checkToken(t.Token)
}

// maxEvery is the longest period of a schedule: four years between two 29ths of February, twice over 1900 and 2100.
const maxEvery = 8 * 366 * 24 * time.Hour

// within returns how late the tick may be taken.
func (t Tick) within() time.Duration { return cmp.Or(t.Within, time.Hour) }

func (t Tick) skipped() error { return &SkippedError{Job: t.Job, Tick: t.At, Within: t.within()} }

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

// aMark is tick, every, token, when it was taken, the attempt, the state, by whom; times in milliseconds; then the gaps.
// The script allows as many digits: its numbers are exact up to 2^53, and times end before the year 5139, periods at 31 years.
var (
	aMark = regexp.MustCompile(`(?s)^(\d{1,14}) (\d{1,12}) (\d{1,16}) (\d{1,14}) [[:xdigit:]]+ (taken|failed|first) ([^\n]*)\n?(.*)$`)
	aGap  = regexp.MustCompile(`^(\d+) (\d{1,14}) (\d+) ([^\n]*)\n`)
)

// parseTaken parses a mark. One that no Once has written is an ErrForeignMark.
func parseTaken(where, job, mark string) (Taken, error) {
	f := aMark.FindStringSubmatch(mark)
	if f == nil {
		return Taken{}, foreign(where, job, mark)
	}
	t := Taken{
		Job: job, Mark: where, Tick: ms(f[1]), Every: time.Duration(number(f[2])) * time.Millisecond, Token: uint64(number(f[3])),
		At: ms(f[4]), Failed: f[5] == "failed", Never: f[5] == "first", By: f[6],
	}
	gap, rest := parseGap(f[7])
	if gap == nil && f[7] != "" {
		return Taken{}, foreign(where, job, mark)
	}
	for ; gap != nil; gap, rest = parseGap(rest) {
		t.Skipped = append(t.Skipped, *gap)
	}
	return t, nil
}

// parseGap parses the first gap of a mark; nil: there is none.
func parseGap(lines string) (gap *Skip, rest string) {
	g := aGap.FindStringSubmatch(lines)
	if g == nil {
		return nil, ""
	}
	return &Skip{After: ms(g[1]), Until: ms(g[2]), Found: ms(g[3]), Reason: g[4]}, lines[len(g[0]):]
}

func ms(digits string) time.Time { return time.UnixMilli(number(digits)) }

func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

func foreign(where, job, mark string) error {
	return fmt.Errorf("%w: job %s in %s holds %q, which is no tick: find out what else writes there, then delete it",
		ErrForeignMark, legible(job), where, legible(mark))
}

// Latest returns the newest tick of a schedule that is due, with the one before and the time to the next one. next returns the
// first tick after a time, as the Next of robfig/cron's schedules does; a schedule whose ticks depend on when
// a process began has no ideal times, and is refused. The tick is never later than now: whoever took the coming one early would
// lose the one that was missed. It fails if the schedule has had no tick for eight years, or has no next one.
func Latest(next func(time.Time) time.Time, now time.Time) (Tick, error) {
	var t Tick
	for back := 2 * time.Second; back < 2*maxEvery && t.Prev.IsZero(); back *= 2 {
		t = Tick{}
		for at := next(now.Add(-back)); !at.IsZero() && !at.After(now); at = next(at) {
			if !at.After(t.At) {
				return Tick{}, errNoNext
			}
			t.Prev, t.At = t.At, at
		}
	}
	if t.At.IsZero() {
		return Tick{}, errors.New("fence: the schedule has had no tick yet")
	}
	t.Every = next(t.At).Sub(t.At)
	switch {
	case t.Every <= 0:
		return Tick{}, errNoNext
	case !next(t.At.Add(-time.Millisecond)).Equal(t.At):
		return Tick{}, errors.New("fence: the schedule counts from when the process began, so its ticks have no ideal time: use a crontab")
	}
	return t, nil
}

var errNoNext = errors.New("fence: the schedule has no next tick")
