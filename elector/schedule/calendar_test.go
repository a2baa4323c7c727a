package schedule_test

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	netresearch "github.com/netresearch/go-cron"
	robfig "github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/schedule"
)

// parsers read crontabs.
var parsers = map[string]func(t *testing.T, crontab string) schedule.Schedule{
	"robfig": func(t *testing.T, crontab string) schedule.Schedule {
		t.Helper()
		s, err := robfig.ParseStandard(crontab)
		must(t, err)
		return s
	},
	"netresearch": func(t *testing.T, crontab string) schedule.Schedule {
		t.Helper()
		s, err := netresearch.ParseStandard(crontab)
		must(t, err)
		return s
	},
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	location, err := time.LoadLocation(name)
	must(t, err)
	return location
}

// In the nights in which the clock changes the schedule decides, in its own zone or in the Location, whatever the zone of the host.
func TestNights(t *testing.T) {
	for _, k := range []struct {
		parser, crontab, zone, from string // a day
		want                        []string
	}{
		{"robfig", "30 2 * * *", "Europe/Berlin", "2026-03-29", nil},
		{"netresearch", "30 2 * * *", "Europe/Berlin", "2026-03-29", []string{"03:30 CEST"}},
		{"robfig", "30 2 * * *", "Europe/Berlin", "2026-10-25", []string{"02:30 CEST", "02:30 CET"}},
		{"netresearch", "30 2 * * *", "Europe/Berlin", "2026-10-25", []string{"02:30 CEST", "02:30 CET"}},
		{"robfig", "CRON_TZ=America/New_York 30 2 * * *", "Europe/Berlin", "2026-03-29", []string{"08:30 CEST"}},
		{"netresearch", "TZ=America/New_York 30 2 * * *", "", "2026-03-29", []string{"06:30 UTC"}},
		{"robfig", "30 2 * * *", "", "2026-03-29", []string{"02:30 UTC"}},
	} {
		test(t, func(t *testing.T, s *stage) {
			location := time.UTC
			job := schedule.Job{Name: "mail", Do: s.note, Schedule: parsers[k.parser](t, k.crontab)}
			if k.zone != "" {
				location = zone(t, k.zone)
				job.Location = location
			}
			day, err := time.ParseInLocation(time.DateOnly, k.from, location)
			must(t, err)
			time.Sleep(time.Until(day))
			s.start("a", setting{config: func(cfg *elector.Config) { cfg.Lease, cfg.Cooldown = time.Hour, 0 }}, job)
			time.Sleep(time.Until(day.AddDate(0, 0, 1)))
			var ran []string
			for _, run := range s.ran {
				ran = append(ran, run.Tick.In(location).Format("15:04 MST"))
			}
			if !slices.Equal(ran, k.want) || s.lines("ticks were not run") != 0 {
				t.Errorf("%s, %s in %s on %s: ran at %q, want %q", k.parser, k.crontab, k.zone, k.from, ran, k.want)
			}
		})
	}
}

// calendar is what runs and what logs name of many days.
type calendar struct {
	slog.Handler
	*stage

	named map[string][][2]time.Time // by job: the first and the last tick of what was, or may not have been, run
}

func (c calendar) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c calendar) Enabled(context.Context, slog.Level) bool { return true }

// Handle notes which ticks a replica names.
func (c calendar) Handle(_ context.Context, r slog.Record) error {
	values := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool { values[a.Key] = a.Value; return true })
	at := func(key string) time.Time {
		t, _ := time.Parse("2006-01-02T15:04:05.000Z", values[key].String())
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	job := values["job"].String()
	switch r.Message {
	case "ticks were not run":
		c.named[job] = append(c.named[job], [2]time.Time{at("first"), at("last")})
	case "tick may not run: no answer before the term ended":
		tick := values["tick"].Time()
		c.named[job] = append(c.named[job], [2]time.Time{tick, tick})
	}
	return nil
}

// number returns a number from the environment.
func number(name string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return standard
}

// A storm of sixty days (CALENDAR_DAYS), five schedules in as many zones, two parsers, three replicas whose clocks differ and step, the ticks' Redis
// on a host of its own, leaders that resign, are deployed, killed, or cut off: each tick runs once, or a log names it.
func TestStormOfTicks(t *testing.T) {
	seed := uint64(number("CALENDAR_SEED", 1))
	test(t, func(t *testing.T, s *stage) {
		time.Sleep(time.Until(time.Date(2026, 3, 1, 7, 17, 3, 0, time.UTC)))
		cal := calendar{slog.DiscardHandler, s, map[string][][2]time.Time{}}
		var jobs []schedule.Job
		for crontab, in := range map[string]string{
			"30 2 * * *": "Europe/Berlin", "45 1,13 * * *": "America/New_York", "0 3 * * 1-5": "Australia/Lord_Howe", "*/30 * * * 0": "Africa/Casablanca", "30 1 1 * *": "America/Santiago",
		} {
			for parser, parse := range parsers {
				jobs = append(jobs, schedule.Job{Name: parser + " " + crontab, Schedule: parse(t, crontab), Location: zone(t, in), Do: s.note})
			}
		}
		const lease = 3 * time.Hour
		var ahead [3]atomic.Int64
		var all [3]*replica
		lives, random := 0, rand.New(rand.NewPCG(seed, 0))
		join := func(i int) {
			lives++
			clock := func() time.Time { return time.Now().Add(time.Duration(ahead[i].Load())) }
			config := func(cfg *elector.Config) { cfg.Lease, cfg.Logger = lease, slog.New(cal) }
			k := setting{client: s.r.Client("ticks"), clock: clock, config: config}
			all[i] = s.start(strconv.Itoa(i)+"-"+strconv.Itoa(lives), k, jobs...)
		}
		for i := range all {
			ahead[i].Store(int64(time.Duration(i-1) * 500 * time.Millisecond))
			join(i)
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		days := time.Duration(number("CALENDAR_DAYS", 60)) * 24 * time.Hour
		for time.Since(begin) < days {
			wait := time.Duration(random.Int64N(int64(12 * time.Hour)))
			if random.IntN(2) == 0 { // just when ticks are due
				wait = time.Until(time.Now().Add(wait).Truncate(15 * time.Minute).Add(time.Duration(random.IntN(2000)-1000) * time.Millisecond))
			}
			time.Sleep(wait)
			i := slices.IndexFunc(all[:], func(r *replica) bool { return r.e.IsLeader() })
			if i < 0 {
				continue
			}
			switch kind := random.IntN(40); {
			case kind == 0: // killed: it neither releases nor finds anything out
				s.r.CutOff(all[i].e.ID())
				all[i].stop()
				join(i)
			case kind == 1: // stopped, for longer than the lease
				heal := s.r.CutOff(all[i].e.ID())
				time.Sleep(lease + time.Duration(random.IntN(3600))*time.Second)
				heal()
			case kind < 5: // the ticks' Redis is away
				heal := s.r.CutOff("ticks")
				time.Sleep(time.Duration(random.IntN(300)) * time.Second)
				heal()
			case kind < 12: // a deploy
				all[i].stop()
				join(i)
			case kind == 12: // a clock is set by up to an hour
				ahead[2].Store(int64(time.Duration(random.IntN(7200)-3600) * time.Second))
			default:
				_ = all[i].e.Resign(context.Background())
				ahead[1].Store(int64(time.Duration(random.IntN(4000)-2000) * time.Millisecond))
			}
		}
		end := time.Now()
		time.Sleep(2 * lease)
		for i := range all {
			all[i].stop()
		}
		cal.report(jobs, begin.Add(2*time.Hour), end, lives)
	})
}

// report compares what ran with what was due.
func (c calendar) report(jobs []schedule.Job, begin, end time.Time, lives int) {
	ran, due, once, named := map[string]map[time.Time]int{}, 0, 0, 0
	for _, run := range c.ran {
		if ran[run.Job] == nil {
			ran[run.Job] = map[time.Time]int{}
		}
		ran[run.Job][run.Tick.UTC()]++
	}
	for _, job := range jobs {
		expected := map[time.Time]bool{}
		for tick := job.Schedule.Next(begin.In(job.Location)); tick.Before(end); tick = job.Schedule.Next(tick) {
			expected[tick.UTC()] = true
		}
		for tick := range expected {
			due++
			isNamed := slices.ContainsFunc(c.named[job.Name], func(g [2]time.Time) bool { return !tick.Before(g[0]) && !tick.After(g[1]) })
			switch n := ran[job.Name][tick]; {
			case n == 1:
				once++
			case n > 1:
				c.t.Errorf("%s: the tick %v ran %d times", job.Name, tick, n)
			case isNamed:
				named++
			default:
				c.t.Errorf("%s: the tick %v neither ran nor is it named", job.Name, tick)
			}
		}
		for tick := range maps.Keys(ran[job.Name]) {
			if tick.After(begin) && tick.Before(end) && !expected[tick] {
				c.t.Errorf("%s: ran at %v, when it was not due", job.Name, tick)
			}
		}
	}
	c.t.Logf("%v, %d lives: %d ticks were due, %d ran once, %d are named", end.Sub(begin), lives, due, once, named)
	if named*5 > due {
		c.t.Error("too few ran")
	}
}
