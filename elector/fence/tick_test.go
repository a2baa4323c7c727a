package fence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/fence"
)

func TestLatestTick(t *testing.T) {
	at := func(minutes ...int) func(time.Time) time.Time {
		return func(t time.Time) time.Time {
			for _, n := range minutes {
				if tick := tickAt(n, 5).At; tick.After(t) {
					return tick
				}
			}
			return time.Time{}
		}
	}
	hourly, leap := at(-120, -60, 0, 60), 1461*24*60
	for _, k := range []struct {
		next func(time.Time) time.Time
		now  int    // in minutes
		want string // the tick, with its neighbours; or the error
	}{
		{hourly, 0, "-60, 0, 60"},
		{hourly, 58, "-60, 0, 60"},
		{hourly, -1, "-120, -60, 0"}, // a term that begins before a tick
		{at(-2*leap, 0, leap), leap - 1, fmt.Sprintf("%d, 0, %d", -2*leap, leap)},
		{at(5), 0, "none, none, 5"},
		{at(-5), 0, "none, -5, none"},
		{at(), 0, "never has a tick"},
		{func(t time.Time) time.Time { return t.Add(time.Minute) }, 0, "counts from when the process began"},
		{func(t time.Time) time.Time { return t }, 0, "not later than the time"},
	} {
		tick, err := fence.Latest(k.next, tickAt(k.now, 5).At)
		got := fmt.Sprintf("%s, %s, %s", minute(tick.Prev), minute(tick.At), minute(tick.Next))
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, k.want) || err == nil && minute(tick.Now) != fmt.Sprint(k.now) {
			t.Errorf("%s, want %s", got, k.want)
		}
	}
}

func TestTickBounds(t *testing.T) {
	inSQL, err := fence.NewOnceSQL(fence.PostgreSQL, "")
	must(t, err)
	o := newOnce(t, client(t, "127.0.0.1:1")) // nothing is sent
	for says, change := range map[string]func(*fence.Tick){
		"a job has a name":               func(k *fence.Tick) { k.Job = "" },
		"without braces":                 func(k *fence.Tick) { k.Job = "mail{1}" },
		"1 to 255":                       func(k *fence.Tick) { k.Job = strings.Repeat("m", 5000) },
		"printable":                      func(k *fence.Tick) { k.Job = "mail\n" },
		`mail\xff`:                       func(k *fence.Tick) { k.Job = "mail\xff" },
		"the time of its schedule":       func(k *fence.Tick) { k.At = time.Time{} },
		"not 1969":                       func(k *fence.Tick) { k.At = time.Unix(-1, 0).UTC() },
		"not 5001":                       func(k *fence.Tick) { k.At = time.Date(5001, 1, 1, 0, 0, 0, 0, time.UTC) },
		"ahead of the clock":             func(k *fence.Tick) { k.At = k.Now.Add(61 * time.Second); k.Next = time.Time{} },
		"it would block the job":         func(k *fence.Tick) { k.At, k.Now, k.Next = time.Now().Add(2*time.Minute), time.Time{}, time.Time{} },
		"and 2020-03-01 12:00:00.0005":   func(k *fence.Tick) { k.Next = k.At.Add(500 * time.Microsecond) }, // marks have milliseconds
		"and 5001":                       func(k *fence.Tick) { k.Next = time.Date(5001, 1, 1, 0, 0, 0, 0, time.UTC) },
		"those of 2020-03-01 12":         func(k *fence.Tick) { k.Prev = k.At },
		"not of NewAttempt":              func(k *fence.Tick) { k.Attempt = "order 7" },
		"token 0":                        func(k *fence.Tick) { k.Token = 0 },
		"larger than any":                func(k *fence.Tick) { k.Token = 1 << 53 },
		"at most 255":                    func(k *fence.Tick) { k.By = strings.Repeat("a", 256) },
		`"a\nb"`:                         func(k *fence.Tick) { k.By = "a\nb" },
		"Within is -1ns":                 func(k *fence.Tick) { k.Within = -1 },
		"Within is 3.6µs: give how late": func(k *fence.Tick) { k.Within = 3600 },
		"Within is 1281":                 func(k *fence.Tick) { k.Within = 1 << 62 },
	} {
		tick := tickAt(0, 5)
		change(&tick)
		for _, err := range []error{runs(t, o, tick), inSQL.TakeFunc(t.Context(), nil, tick)} {
			if err == nil || errors.Is(err, fence.ErrRan) || !strings.Contains(err.Error(), says) || len(err.Error()) > 300 {
				t.Errorf("%s: %v", says, err)
			}
		}
	}
	for says, tick := range map[string]fence.Tick{
		"older than 1h": late(tickAt(0, 5)), "ticks only": missed(first(tickAt(0, 5))), "not runs by hand": byHand(tickAt(0, 5)),
	} {
		if err := inSQL.TakeFunc(t.Context(), nil, tick); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
