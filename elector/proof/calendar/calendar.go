// Package calendar simulates more than a year of a scheduler's replicas, in virtual time: their clocks differ, one of them steps, and the
// leader changes all the time. Each tick must run once, or a log must say that it was not run.
package calendar

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/internal/hostclock"
)

// Job is a job of the calendar.
type Job struct {
	Name, Crontab string
	Location      *time.Location

	often bool                    // it runs as often as the clock shows its times
	shows func(at time.Time) bool // by the clock on the wall
}

// Start starts the scheduler of a replica, whose runs are reported; its end is that of ctx.
type Start func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []Job, ran func(job string, tick time.Time)) elector.Work

// jobs are six kinds of schedules in three zones, or those of CALENDAR_ZONES.
func jobs(t *testing.T, begin time.Time, days int) (all []Job) {
	at := func(hour, minute int) func(time.Time) bool {
		return func(t time.Time) bool { return t.Hour() == hour && t.Minute() == minute }
	}
	and := func(a, b func(time.Time) bool) func(time.Time) bool {
		return func(t time.Time) bool { return a(t) && b(t) }
	}
	zones := cmp.Or(os.Getenv("CALENDAR_ZONES"), "Europe/Berlin,America/New_York,Australia/Lord_Howe")
	for zone := range strings.SplitSeq(zones, ",") {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		var months, weekdays []string // in which the clock changes
		_, changes := begin.In(location).ZoneBounds()
		for ; !changes.IsZero() && changes.Before(begin.AddDate(0, 0, days)); _, changes = changes.ZoneBounds() {
			months, weekdays = append(months, fmt.Sprintf("%d", changes.Month())), append(weekdays, fmt.Sprintf("%d", changes.Weekday()))
		}
		if months == nil {
			months, weekdays = []string{"1"}, []string{"0"}
		}
		for _, j := range []Job{
			{Name: "nightly", Crontab: "30 2 * * *", shows: at(2, 30)},
			{Name: "twice a day", Crontab: "45 1,13 * * *", shows: func(t time.Time) bool { return t.Hour()%12 == 1 && t.Minute() == 45 }},
			{Name: "weekdays", Crontab: "0 3 * * 1-5", shows: and(at(3, 0), func(t time.Time) bool { return t.Weekday()%6 != 0 })},
			{Name: "weekly", Crontab: "15 2 * * 0", shows: and(at(2, 15), func(t time.Time) bool { return t.Weekday() == 0 })},
			{Name: "monthly", Crontab: "30 1 1 * *", shows: and(at(1, 30), func(t time.Time) bool { return t.Day() == 1 })},
			{Name: "often", Crontab: fmt.Sprintf("*/10 * * %s %s", strings.Join(months, ","), strings.Join(weekdays, ",")), often: true, shows: func(t time.Time) bool {
				return t.Minute()%10 == 0 && slices.Contains(months, fmt.Sprintf("%d", t.Month())) && slices.Contains(weekdays, fmt.Sprintf("%d", t.Weekday()))
			}},
		} {
			j.Name, j.Location = j.Name+" in "+zone, location
			all = append(all, j)
		}
	}
	return all
}

// Ticks returns when the job is due, by going through all minutes.
func (j Job) Ticks(begin, end time.Time) (all []time.Time) {
	seen := map[string]bool{}
	for at := begin; at.Before(end); at = at.Add(time.Minute) {
		now, before := at.In(j.Location), at.Add(-time.Minute).In(j.Location)
		_, offset := now.Zone()
		_, offsetBefore := before.Zone()
		due := j.shows(now)
		for skipped := offsetBefore - offset; skipped < 0 && !j.often && !due; skipped += 60 {
			due = j.shows(now.Add(time.Duration(skipped) * time.Second).UTC().Add(time.Duration(offset) * time.Second)) // what was jumped over
		}
		shown := now.Format(time.DateTime)
		if due && (j.often || !seen[shown]) {
			all = append(all, at)
			seen[shown] = true
		}
	}
	return all
}

// Nearest returns the tick within two minutes of a time, for schedulers whose jobs are not told theirs.
func (j Job) Nearest(at time.Time) time.Time {
	if near := j.Ticks(at.Truncate(time.Minute).Add(-2*time.Minute), at.Add(2*time.Minute)); len(near) > 0 {
		return near[0]
	}
	return at.Truncate(time.Minute)
}

// Ahead returns how far the clock of a replica is ahead.
func Ahead(of *elector.Elector) time.Duration { return hostclock.Ahead(of.ID()) }

// Each calls run when the job is due by the clock of a replica, as cron(8) does, until ctx ends.
func (j Job) Each(ctx context.Context, on *elector.Elector, run func(tick time.Time)) {
	begin := time.Now()
	for day := begin.Truncate(24 * time.Hour); ; day = day.Add(24 * time.Hour) {
		for _, tick := range j.Ticks(day, day.Add(24*time.Hour)) {
			if tick.Before(begin) {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(tick) - hostclock.Ahead(on.ID())):
				run(tick)
			}
		}
	}
}

// book has what ran, and what the logs name.
type book struct {
	mu    sync.Mutex
	ran   map[string]map[time.Time]int
	named map[string][]gap
	why   map[string]int
}

// gap is what a log names: ticks that were not run or, after a time-out, may not have been.
type gap struct {
	after, until time.Time
	sure         bool
}

func (b *book) note(job string, tick time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ran[job] == nil {
		b.ran[job] = map[time.Time]int{}
	}
	b.ran[job][tick.UTC()]++
}

// names reports whether the logs name a tick as not run.
func (b *book) names(job string, tick time.Time) (named, sure bool) {
	for _, g := range b.named[job] {
		if tick.After(g.after) && !tick.After(g.until) {
			named, sure = true, sure || g.sure
		}
	}
	return named, sure
}

// handler reads the log of a replica.
type handler struct {
	slog.Handler
	b *book
}

func (h handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h handler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "ticks were not run" && r.Message != "tick may not run: no answer before the term ended" {
		return nil
	}
	values := map[string]string{}
	r.Attrs(func(a slog.Attr) bool { values[a.Key] = a.Value.String(); return true })
	at := func(key string) time.Time { t, _ := time.Parse(time.RFC3339, values[key]); return t }
	g := gap{at("after"), at("until"), true}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	reason := values["reason"]
	if tick, ok := values["tick"]; ok {
		g.until, _ = time.Parse("2006-01-02 15:04:05 -0700 MST", tick)
		g.after, g.sure, reason = g.until.Add(-1), false, "taken, and no answer before the term ended"
	}
	if len(reason) > 40 {
		reason = reason[:40]
	}
	h.b.named[values["job"]], h.b.why[reason] = append(h.b.named[values["job"]], g), h.b.why[reason]+1
	return nil
}

// fleet are the replicas.
type fleet struct {
	t      *testing.T
	fault  func(format string, args ...any)
	r      *electortest.Redis
	start  Start
	jobs   []Job
	book   *book
	lives  int
	random *rand.Rand
	all    []*replica
}

type replica struct {
	id   string
	e    *elector.Elector
	stop context.CancelFunc
	over sync.WaitGroup
}

const lease = 3 * time.Hour

// join starts another life of a replica.
func (f *fleet) join(i int) {
	f.lives++
	n := &replica{id: fmt.Sprintf("calendar-%d-%d", i, f.lives)}
	hostclock.Set(n.id, time.Duration(i-1)*500*time.Millisecond)
	e, err := elector.New(f.r.Quorum(n.id), elector.Config{Election: "calendar", ID: n.id, Lease: lease, Cooldown: -1, Logger: slog.New(handler{slog.DiscardHandler, f.book})})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.e, n.stop = e, cancel
	work := f.start(ctx, e, f.r.Client(n.id), f.jobs, f.book.note)
	n.over.Go(func() { _ = e.Run(ctx, work) })
	f.all[i] = n
}

func (f *fleet) leader() int {
	return slices.IndexFunc(f.all, func(n *replica) bool { return n.e.IsLeader() })
}

// change makes the leader another one, or tries to.
func (f *fleet) change() {
	i := f.leader()
	if i < 0 {
		return
	}
	n := f.all[i]
	switch kind := f.random.IntN(40); {
	case kind == 0: // killed: it neither releases nor finds anything out
		f.r.CutOff(n.id)
		n.stop()
		n.over.Wait()
		f.join(i)
	case kind == 1: // stopped, for longer than the lease
		heal := f.r.CutOff(n.id)
		time.Sleep(lease + time.Duration(f.random.IntN(3600))*time.Second)
		heal()
	case kind == 2: // Redis is away
		heal := f.r.CutOff()
		time.Sleep(time.Duration(f.random.IntN(300)) * time.Second)
		heal()
	case kind < 10: // a deploy
		n.stop()
		n.over.Wait()
		f.join(i)
	default:
		_ = n.e.Resign(context.Background())
	}
	hostclock.Set(f.all[2].id, time.Duration(f.random.IntN(4000)-2000)*time.Millisecond) // steps
}

// setting returns a number from the environment.
func setting(name string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return standard
}

// Test runs the calendar from a day on: or CALENDAR_FROM, CALENDAR_DAYS, CALENDAR_CHANGES of the leader, CALENDAR_SEED,
// CALENDAR_ZONES.
func Test(t *testing.T, from string, days, changes int, start Start) {
	test(t, from, days, changes, start, t.Errorf)
}

// Count counts what becomes of the ticks with schedulers that are not ours; only with CALENDAR_PEERS.
func Count(t *testing.T, start Start) {
	if os.Getenv("CALENDAR_PEERS") == "" {
		t.Skip("CALENDAR_PEERS is not set")
	}
	test(t, "2026-10-20", 7, 100, start, func(string, ...any) {})
}

func test(t *testing.T, from string, days, changes int, start Start, fault func(format string, args ...any)) {
	first, err := time.Parse(time.DateOnly, cmp.Or(os.Getenv("CALENDAR_FROM"), from))
	if err != nil {
		t.Fatal(err)
	}
	days, changes = setting("CALENDAR_DAYS", days), setting("CALENDAR_CHANGES", changes)
	seed := setting("CALENDAR_SEED", 1)
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		f := &fleet{
			t: t, fault: fault, r: r, start: start, jobs: jobs(t, first, days), random: rand.New(rand.NewPCG(uint64(seed), 0)), all: make([]*replica, 3),
			book: &book{ran: map[string]map[time.Time]int{}, named: map[string][]gap{}, why: map[string]int{}},
		}
		time.Sleep(time.Until(first.Add(7*time.Hour + 17*time.Second)))
		for i := range f.all {
			f.join(i)
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		for end := begin.Add(time.Duration(days) * 24 * time.Hour); time.Now().Before(end); {
			wait := time.Duration(days) * 24 * time.Hour / time.Duration(changes)
			wait = time.Duration(f.random.Int64N(int64(2 * wait)))
			if f.random.IntN(2) == 0 { // just when ticks are due
				wait = time.Until(time.Now().Add(wait).Truncate(15 * time.Minute).Add(time.Duration(f.random.IntN(2000)-1000) * time.Millisecond))
			}
			time.Sleep(wait)
			f.change()
		}
		end := time.Now()
		time.Sleep(2 * lease)
		f.report(seed, begin, end)
		for _, n := range f.all {
			n.stop()
			n.over.Wait()
		}
	})
}

// report compares what ran with what was due.
func (f *fleet) report(seed int, begin, end time.Time) {
	f.book.mu.Lock()
	defer f.book.mu.Unlock()
	due, ran, named, doubled, lost := 0, 0, 0, 0, 0
	for _, j := range f.jobs {
		expected := j.Ticks(begin.Truncate(time.Minute).Add(time.Minute), end)
		for _, tick := range expected {
			due++
			isNamed, isSure := f.book.names(j.Name, tick)
			switch n := f.book.ran[j.Name][tick.UTC()]; {
			case n == 1 && isSure:
				f.fault("seed %d: %s: the tick %v ran, and is named as not run", seed, j.Name, tick)
			case n == 1:
				ran++
			case n > 1:
				doubled++
				f.fault("seed %d: %s: the tick %v ran %d times", seed, j.Name, tick, n)
			case isNamed:
				named++
			default:
				lost++
				f.fault("seed %d: %s: the tick %v neither ran nor is it named", seed, j.Name, tick)
			}
		}
		for tick := range f.book.ran[j.Name] {
			if tick.After(begin) && tick.Before(end) && !slices.ContainsFunc(expected, tick.Equal) {
				doubled++
				f.fault("seed %d: %s: ran at %v, when it was not due", seed, j.Name, tick)
			}
		}
	}
	f.t.Logf("seed %d, %v, %d lives: %d ticks were due, %d ran once, %d are named as not run, %d doubled, %d lost: %v",
		seed, end.Sub(begin), f.lives, due, ran, named, doubled, lost, f.book.why)
}
