package fence

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Errors of a tick that is not run.
var (
	// ErrRan means that this tick of the job, or a later one, has been taken before.
	ErrRan = errors.New("fence: the tick has been taken")
	// ErrSkipped means that the tick is older than its Within. The mark records that.
	ErrSkipped = errors.New("fence: the tick is too old")
	// ErrNotDue means that a tick with Missed was not missed: the job was not known, or had another schedule.
	ErrNotDue = errors.New("fence: the tick was not due")
	// ErrNothingDone is for a job that has done nothing: its tick may run again.
	ErrNothingDone = errors.New("fence: nothing was done")
)

// Tick is one run of a job that a schedule asks for. [Latest] makes one of a schedule, without Job and Token.
type Tick struct {
	// Job is the name of the job: 1 to 255 printable bytes without braces, the same at every tick. There may be as many as one
	// likes: the mark of a job that is gone expires.
	Job string
	// At is the ideal time of the tick: what the schedule says, not what the clock says when the job is
	// started. Clocks of hosts differ, and so would the tick. It counts in milliseconds. Zero: none has been due yet.
	At time.Time
	// Prev and Next are the ticks before and after it; zero: there is none. If the newest tick that was decided is older than Prev, the mark
	// records what was not run in between ([Taken.Skipped]), with Why as the reason.
	Prev, Next time.Time
	Why        string
	// Now is the present time by the clock of who asks: with Within it says whether the tick is too old. Zero: time.Now.
	Now time.Time
	// Within is how late a tick may be taken; then it is refused with an ErrSkipped. 0: an hour, which is more than a failover, a
	// deploy or an outage that somebody attends to; a job of the night should not begin in the morning, and cron runs none late.
	Within time.Duration
	// Missed is for a tick that was due before its leader looked: it is refused with an ErrNotDue unless the job
	// is known, and its schedule asked for the tick. Now the job is known, so that its next tick can be missed.
	Missed bool
	// ByHand is for a run beside the schedule: it is recorded as one, and takes no tick.
	ByHand bool
	Token  uint64 // of the term that runs the tick (elector.Term.Token)
	By     string // who runs it, such as the candidate, for operators; at most 255 bytes
	// Attempt makes Take idempotent: whoever repeats it after a time-out sets the same one, from NewAttempt, also for a later tick: a tick
	// that was taken only when its sender had given up was not run, and is recorded as skipped. After any answer another one is due.
	// Empty: each call is another.
	Attempt string
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Check returns what is wrong with a tick, without asking Redis.
func (t Tick) Check() error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '{' || r == '}' || r == unicode.ReplacementChar }
	switch {
	case t.Job == "" || len(t.Job) > 255 || strings.ContainsFunc(t.Job, odd):
		return fmt.Errorf("fence: job %.40q: a job has a name of 1 to 255 printable bytes, without braces", t.Job)
	case !t.At.IsZero() && t.At.UnixMilli() <= 0 || t.At.IsZero() && !t.Missed && !t.ByHand || t.At.Year() > maxYear:
		return fmt.Errorf("fence: job %s: a tick needs the time of its schedule, not %v", t.Job, t.At)
	case t.At.Sub(t.now()) > time.Minute:
		return fmt.Errorf("fence: job %s: the tick %s is ahead of the clock: it would block the job until then", t.Job, stamp(t.At))
	case !t.Next.IsZero() && (t.Next.UnixMilli() <= t.At.UnixMilli() || t.Next.Year() > maxYear), !t.Prev.IsZero() && !t.Prev.Before(t.At):
		return fmt.Errorf("fence: job %s: the ticks before and after that of %v can't be those of %v and %v", t.Job, t.At, t.Prev, t.Next)
	case strings.Trim(t.Attempt, "0123456789abcdef") != "":
		return fmt.Errorf("fence: job %s: the Attempt %.40q is not of NewAttempt", t.Job, t.Attempt)
	case len(t.By) > 255 || strings.ContainsFunc(t.By, unicode.IsControl):
		return fmt.Errorf("fence: job %s: By is at most 255 printable bytes, not %.40q", t.Job, t.By)
	case t.Within != 0 && t.Within < time.Millisecond || t.Within > maxGap: // 3600 is 3.6 us: no tick would run
		return fmt.Errorf("fence: job %s: Within is %v: give how late a tick may run, 1ms to %v, or 0 for an hour", t.Job, t.Within, maxGap)
	}
	return checkToken(t.Token)
}

// maxYear bounds a tick: its milliseconds have at most 14 digits, which the marks and their script keep.
const maxYear = 5000

// maxGap is the longest time between two ticks: four years between two 29ths of February, twice over 1900 and 2100.
const maxGap = 8 * 366 * 24 * time.Hour

// within returns how late the tick may be taken.
func (t Tick) within() time.Duration { return cmp.Or(t.Within, time.Hour) }

func (t Tick) now() time.Time {
	if t.Now.IsZero() {
		return time.Now()
	}
	return t.Now
}

// late reports whether the tick is too old.
func (t Tick) late() bool { return !t.At.IsZero() && t.now().Sub(t.At) > t.within() }

// keep is for how long a mark is kept: until another tick could have been missed after the next one, and for a long weekend without a leader.
func (t Tick) keep() time.Duration {
	from := t.At
	if from.IsZero() {
		from = t.now()
	}
	return 2*min(max(0, t.Next.Sub(from)), maxGap) + t.within() + 72*time.Hour
}

func (t Tick) skipped() error {
	return fmt.Errorf("%w: %s of %s is older than %v", ErrSkipped, stamp(t.At), t.Job, t.within())
}

// refused returns why a mark refuses the tick.
func (t Tick) refused(mark Taken) error {
	if t.Token < mark.Token {
		return &StaleError{Resource: mark.Mark + " " + t.Job, Token: t.Token, Newest: mark.Token}
	}
	return fmt.Errorf("%w: of %s that of %s was taken before %s, with token %d", ErrRan, t.Job, stamp(mark.Tick), stamp(t.At), mark.Token)
}

// Latest returns the newest tick of a schedule that is due, with its neighbours; At is zero if there has been none in the last eight
// years, and Next if there will be none. next returns the first tick after a time, or the zero time, as the Next of robfig/cron's schedules does. A tick is
// never later than now: whoever took the coming one early would lose the one that was missed.
//
// It fails for a schedule without any tick, and for one whose ticks depend on when a process began: they have no ideal times.
func Latest(next func(time.Time) time.Time, now time.Time) (Tick, error) {
	t := Tick{At: newest(next, now), Now: now, Next: next(now)}
	if !t.At.IsZero() {
		t.Prev, t.Next = newest(next, t.At.Add(-time.Nanosecond)), next(t.At)
	}
	if t.Next.Year() > maxYear {
		t.Next = time.Time{} // some schedules say never so
	}
	switch {
	case t.At.IsZero() && t.Next.IsZero():
		return Tick{}, errors.New("fence: the schedule never has a tick, such as one of 30 February, or of a period below 1ms")
	case !t.Next.IsZero() && !t.Next.After(now):
		return Tick{}, errors.New("fence: the schedule's next tick is not later than the time that it was asked for")
	case moves(next, now) && moves(next, now.Add(24*time.Hour)): // once may be the night in which a clock changes
		return Tick{}, errors.New("fence: the schedule counts from when the process began, so its ticks have no ideal time: use a crontab, or schedule.Every")
	}
	return t, nil
}

// newest returns the newest tick that is not later than t, or the zero time.
func newest(next func(time.Time) time.Time, t time.Time) time.Time {
	due := func(at time.Time) bool { return !at.IsZero() && !at.After(t) }
	for back := 2 * time.Second; back < 2*maxGap; back *= 2 {
		at := next(t.Add(-back))
		if !due(at) {
			continue
		}
		for following := next(at); due(following) && following.After(at); following = next(at) {
			at = following
		}
		return at
	}
	return time.Time{}
}

// moves reports whether the first tick after t is another one when asked for later, but before it.
func moves(next func(time.Time) time.Time, t time.Time) bool {
	at := next(t)
	return !at.IsZero() && !next(t.Add(at.Sub(t)/2)).Equal(at)
}
