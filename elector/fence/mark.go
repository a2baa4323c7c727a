package fence

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Taken is what the mark of a job holds. Its JSON is that of `mandate ticks --json`.
type Taken struct {
	Job     string    `json:"job"`
	Mark    string    `json:"mark"`              // where it is kept: a key, or the table
	Tick    time.Time `json:"tick,omitzero"`     // the newest tick that was decided: taken, or skipped; zero: none yet
	Next    time.Time `json:"next,omitzero"`     // the first one that was not; zero: the schedule has none
	Token   uint64    `json:"token"`             // the newest that has asked
	Run     Ran       `json:"run,omitzero"`      // the newest run; in SQL, who took the tick and when
	Skipped []Skip    `json:"skipped,omitempty"` // the newest 20 gaps, the newest first
	Clock   time.Time `json:"-"`                 // that of Redis, of what Take returns
}

// Ran is a run of a job.
type Ran struct {
	Tick    time.Time `json:"tick,omitzero"` // zero: it was started by hand
	Began   time.Time `json:"began"`         // by the clock of Redis
	Ended   time.Time `json:"ended,omitzero"`
	By      string    `json:"by"`
	Token   uint64    `json:"token"`
	Outcome Outcome   `json:"outcome,omitempty"` // empty while it is running
	Error   string    `json:"error,omitempty"`
}

// Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	OK          Outcome = "ok"
	Failed      Outcome = "failed" // it returned an error
	Panicked    Outcome = "panicked"
	TimedOut    Outcome = "timed out"
	TermEnded   Outcome = "ended with its term"
	Removed     Outcome = "removed"      // its job, while it was running
	NothingDone Outcome = "nothing done" // ErrNothingDone: the tick may run again
	Unknown     Outcome = "unknown"      // its leader has ended, and reported nothing
)

// Skip is a gap: the ticks from First to Last were not run.
type Skip struct {
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Found  time.Time `json:"found"` // by the clock of Redis
	Reason string    `json:"reason"`
}

// Overdue returns for how long the next tick has been due, also while the job is running; zero: it is not.
func (t Taken) Overdue(now time.Time) time.Duration {
	if t.Next.IsZero() {
		return 0
	}
	return max(0, now.Sub(t.Next))
}

// Running reports whether the newest run has not ended.
func (t Taken) Running() bool { return t.Run.Outcome == "" && !t.Run.Began.IsZero() }

// Blocked returns for how long the job can't run, because its mark is in the future by more than a tick: a clock was wrong
// when it was taken. Deleting the mark ends it. Zero: it can.
func (t Taken) Blocked(now time.Time) time.Duration {
	if ahead := t.Tick.Sub(now); ahead > max(t.Next.Sub(t.Tick), time.Minute) {
		return ahead
	}
	return 0
}

// fields are those of a mark in Redis, as once.lua has them.
type fields struct {
	Tick    uint64 `redis:"tick"`
	Next    uint64 `redis:"next"`
	Token   uint64 `redis:"token"`
	State   string `redis:"state"`
	What    string `redis:"what"`
	Began   uint64 `redis:"began"`
	Ended   uint64 `redis:"ended"`
	By      string `redis:"by"`
	Of      uint64 `redis:"of"`
	Outcome string `redis:"outcome"`
	Detail  string `redis:"detail"`
	Gaps    string `redis:"gaps"`
}

// parseMark parses the fields of a mark. One that no Once has written is an ErrForeignMark.
func parseMark(where, job string, in map[string]string) (Taken, error) {
	var f fields
	err := redis.NewMapStringStringResult(in, nil).Scan(&f)
	tick, _ := strconv.ParseUint(f.What, 10, 64) // not of a run by hand
	if err != nil || f.State == "" || in["tick"] == "" || in["next"] == "" || in["token"] == "" || max(f.Tick, f.Next, f.Began, f.Ended, tick) > maxTime || max(f.Token, f.Of) > maxToken {
		return Taken{}, &StaleError{Resource: where + " of job " + legible(job), Foreign: fmt.Sprintf("%q, which is no tick", legible(fmt.Sprint(in))), fix: "delete it"}
	}
	return Taken{
		Job: job, Mark: where, Tick: ms(f.Tick), Next: ms(f.Next), Token: f.Token, Skipped: parseGaps(f.Gaps),
		Run: Ran{Tick: ms(tick), Began: ms(f.Began), Ended: ms(f.Ended), By: f.By, Token: f.Of, Outcome: Outcome(f.Outcome), Error: f.Detail},
	}, nil
}

// maxTime is the last millisecond that a mark may hold: its numbers have at most 14 digits, so that Lua keeps them.
const maxTime = 1e14 - 1

// ms returns a time, which is zero for 0.
func ms(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(n))
}

var aGap = regexp.MustCompile(`(?m)^(\d{1,14}) (\d{1,14}) (\d{1,14}) [[:xdigit:]]+ (.*)$`)

// parseGaps parses the gaps of a mark. Lines of another program are left out.
func parseGaps(lines string) (all []Skip) {
	for _, g := range aGap.FindAllStringSubmatch(lines, -1) {
		at := func(i int) time.Time { n, _ := strconv.ParseUint(g[i], 10, 64); return ms(n) }
		all = append(all, Skip{First: at(1), Last: at(2), Found: at(3), Reason: g[4]})
	}
	return all
}
