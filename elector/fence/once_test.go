package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestOnce(t *testing.T) {
	onceSuite(t, func(t *testing.T) string {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		return m.Addr()
	})
}

func TestOnceReal(t *testing.T) {
	onceSuite(t, func(t *testing.T) string { return servertest.Redis(t).Addr() })
}

func onceSuite(t *testing.T, server func(t *testing.T) string) {
	for name, test := range map[string]func(t *testing.T, c *redis.Client, o *fence.Once){
		"only a later tick with a token not older": testOnceOrder,
		"one of many takes it":                     testOnceOfMany,
		"a tick that failed":                       testOnceRetry,
		"an answer that was lost":                  testOnceLostAnswer,
		"bounds":                                   testOnceBounds,
		"marks of others":                          testOnceForeign,
		"what is read":                             testOnceReads,
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, server(t))
			test(t, c, newOnce(t, c))
		})
	}
}

func newOnce(t *testing.T, c redis.UniversalClient) *fence.Once {
	t.Helper()
	o, err := fence.NewOnce(c, "", "reports")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// noon is a moment that no clock in the test is far from.
func noon() time.Time { return time.Now().Truncate(time.Second) }

func tickAt(at time.Time, token uint64) fence.Tick {
	return fence.Tick{Job: "mail", At: at, Every: time.Hour, Token: token, By: "a"}
}

// runs reports whether the tick was run, and the error.
func runs(t *testing.T, o *fence.Once, tick fence.Tick) (ran bool, err error) {
	t.Helper()
	err = o.Do(t.Context(), tick, func(context.Context) error { ran = true; return nil })
	if ran != (err == nil) {
		t.Fatalf("it ran: %t, and the error is %v", ran, err)
	}
	return ran, err
}

// A tick is compared by its ideal time, whatever the clocks say, and the token of who takes it.
func testOnceOrder(t *testing.T, _ *redis.Client, o *fence.Once) {
	at := noon()
	for i, step := range []struct {
		after time.Duration
		token uint64
		want  error
	}{
		{0, 5, nil},
		{0, 5, fence.ErrRan},                     // the same leader, again
		{0, 7, fence.ErrRan},                     // its successor, whose clock is behind
		{-time.Millisecond, 7, fence.ErrRan},     // an earlier one
		{time.Millisecond, 4, fence.ErrStale},    // an old leader
		{time.Second, 7, nil},                    // the successor's first
		{2 * time.Second, 5, fence.ErrStale},     // who was stopped before it took this
		{time.Second, 5, fence.ErrStale},         // this one as well
		{2 * time.Second, 7, nil},                //
		{2 * time.Second, 1 << 52, fence.ErrRan}, //
	} {
		if _, err := runs(t, o, tickAt(at.Add(step.after), step.token)); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Fatalf("step %d: %v, want %v", i, err, step.want)
		}
	}
	_, err := runs(t, o, tickAt(at.Add(time.Second), 8))
	var ran *fence.RanError
	if !errors.As(err, &ran) || !ran.Taken.Tick.Equal(at.Add(2*time.Second)) || ran.Taken.Token != 7 || ran.Taken.By != "a" ||
		time.Since(ran.Taken.At).Abs() > time.Minute {
		t.Errorf("%v: %+v", err, ran)
	}
	_, err = runs(t, o, tickAt(at.Add(time.Minute), 6))
	testfence.WantStale(t, err, 6, 7)
}

func testOnceOfMany(t *testing.T, _ *redis.Client, o *fence.Once) {
	at := noon()
	for tick := range 5 {
		var ran atomic.Int32
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				err := o.Do(t.Context(), tickAt(at.Add(time.Duration(tick)*time.Second), uint64(1+i%3)), func(context.Context) error { ran.Add(1); return nil })
				if err != nil && !errors.Is(err, fence.ErrRan) && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := ran.Load(); n != 1 && tick == 0 || n > 1 {
			t.Errorf("tick %d ran %d times", tick, n)
		}
	}
}

// Only a tick whose function has returned an error runs again, and only if that was asked for.
func testOnceRetry(t *testing.T, _ *redis.Client, o *fence.Once) {
	broken := errors.New("mail server down")
	at := noon()
	fails := func(tick fence.Tick) error {
		return o.Do(t.Context(), tick, func(context.Context) error { return broken })
	}
	if err := fails(tickAt(at, 5)); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err := runs(t, o, tickAt(at, 5)); !errors.Is(err, fence.ErrRan) {
		t.Fatalf("it ran again without Retry: %v", err)
	}
	again := tickAt(at.Add(time.Second), 5)
	again.Retry = true
	if err := fails(again); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err := runs(t, o, tickAt(at, 5)); !errors.Is(err, fence.ErrRan) {
		t.Fatalf("an earlier tick ran after a later one had failed: %v", err)
	}
	if _, err := runs(t, o, tickAt(again.At, 4)); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("an old leader took a failed tick: %v", err)
	}
	if _, err := runs(t, o, again); err != nil {
		t.Fatalf("a failed tick is not run again: %v", err)
	}
	// The failure of an old attempt, reported late, does not give back what a newer one took.
	again.At = again.At.Add(time.Second)
	err := o.Do(t.Context(), again, func(context.Context) error {
		if _, err := runs(t, o, tickAt(again.At.Add(time.Second), 7)); err != nil {
			t.Error(err)
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := runs(t, o, tickAt(again.At.Add(time.Second), 7)); !errors.Is(err, fence.ErrRan) {
		t.Errorf("it ran twice: %v", err)
	}
}

// go-redis sends a command again when its answer was lost: the tick is its own.
func testOnceLostAnswer(t *testing.T, c *redis.Client, _ *fence.Once) {
	lossy := &losing{addr: c.Options().Addr}
	lost := redis.NewClient(&redis.Options{Dialer: lossy.dial, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { lost.Close() })
	o := newOnce(t, lost)
	if _, err := runs(t, o, tickAt(noon().Add(-time.Second), 5)); err != nil {
		t.Fatal(err)
	}
	lossy.lose.Store(true)
	if _, err := runs(t, o, tickAt(noon(), 5)); err != nil || lossy.lose.Load() {
		t.Fatalf("%v; an answer was lost: %t", err, !lossy.lose.Load())
	}
}

func testOnceBounds(t *testing.T, c *redis.Client, o *fence.Once) {
	inSQL, err := fence.NewOnceSQL(fence.PostgreSQL, "")
	if err != nil {
		t.Fatal(err)
	}
	at := noon()
	for name, k := range map[string]struct {
		change func(*fence.Tick)
		says   string
	}{
		"no job":             {func(k *fence.Tick) { k.Job = "" }, "a job has a name"},
		"braces":             {func(k *fence.Tick) { k.Job = "mail{1}" }, "without braces"},
		"a long name":        {func(k *fence.Tick) { k.Job = strings.Repeat("m", 5000) }, "1 to 255"},
		"a line":             {func(k *fence.Tick) { k.Job = "mail\n" }, "printable"},
		"not UTF-8":          {func(k *fence.Tick) { k.Job = "mail\xff" }, "printable"},
		"no time":            {func(k *fence.Tick) { k.At = time.Time{} }, "the time of its schedule"},
		"no period":          {func(k *fence.Tick) { k.Every = 0 }, "longest time between two"},
		"a negative period":  {func(k *fence.Tick) { k.Every = -time.Hour }, "longest time between two"},
		"a period of an age": {func(k *fence.Tick) { k.Every = 1 << 62 }, "longest time between two"},
		"no token":           {func(k *fence.Tick) { k.Token = 0 }, "token 0"},
		"who":                {func(k *fence.Tick) { k.By = strings.Repeat("a", 256) }, "at most 255"},
		"next year":          {func(k *fence.Tick) { k.At = at.AddDate(1, 0, 0) }, "clock: it would block the job"},
		"two periods ahead":  {func(k *fence.Tick) { k.At = at.Add(2 * time.Hour) }, "ahead of Redis' clock"},
		"last year":          {func(k *fence.Tick) { k.At = at.AddDate(-1, 0, 0) }, "too old"},
	} {
		tick := tickAt(at, 5)
		k.change(&tick)
		if _, err := runs(t, o, tick); err == nil || errors.Is(err, fence.ErrRan) || !strings.Contains(err.Error(), k.says) || len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
		if name == "last year" { // in SQL it is known whether it ran: rows don't expire
			continue
		}
		if strings.Contains(name, "ahead") {
			k.says = "ahead of this host's clock"
		}
		if err := inSQL.TakeFunc(t.Context(), nil, tick); err == nil || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s, in SQL: %v", name, err)
		}
	}
	if n := c.Exists(t.Context(), "mandate:{reports}:ticks").Val(); n != 0 {
		t.Error("a refused tick has left a mark")
	}
	early := tickAt(at.Add(50*time.Second), 5) // a clock that is that far ahead, and a job per second
	early.Every = time.Second
	if _, err := runs(t, o, early); err != nil {
		t.Error(err)
	}
	if _, err := runs(t, o, tickAt(at.Add(time.Minute), 5)); err != nil {
		t.Error(err)
	}
	if ttl := c.PTTL(t.Context(), "mandate:{reports}:ticks").Val(); ttl < 25*time.Hour || ttl > 27*time.Hour {
		t.Errorf("marks are kept for %v", ttl)
	}
	// What ran is known for as long as the mark is there, however long ago.
	c.HSet(t.Context(), "mandate:{reports}:ticks", "old", fmt.Sprintf("%d 60000 5 %d 0a taken a", at.AddDate(0, -2, 0).UnixMilli(), at.AddDate(0, -2, 0).UnixMilli()))
	missed := fence.Tick{Job: "old", At: at.AddDate(0, -1, 0), Every: time.Minute, Token: 5}
	if _, err := runs(t, o, missed); err != nil {
		t.Errorf("a tick that is known not to have run: %v", err)
	}
	for i := range 1000 {
		c.HSet(t.Context(), "mandate:{reports}:ticks", fmt.Sprint("job-of-day-", i), "x")
	}
	full := tickAt(at, 5)
	full.Job = "another"
	if _, err := runs(t, o, full); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("the 1001st job: %v", err)
	}
}

func testOnceForeign(t *testing.T, c *redis.Client, o *fence.Once) {
	const key = "mandate:{reports}:ticks"
	for _, mark := range []string{"", "x", "1 2 3", "-1 1 1 1 0a taken a", "1 1 1 1 0a taken", "99999999999999999999 1 1 1 0a taken a", "1 9999999999999 1 1 0a taken a", "1 1 1 999999999999999 0a taken a", "1.5 1 1 1 0a taken a", "\xff\x00 1", "1 1 1 1 0a Taken a"} {
		c.HSet(t.Context(), key, "mail", mark)
		if _, err := runs(t, o, tickAt(noon(), 5)); !errors.Is(err, fence.ErrForeignMark) {
			t.Errorf("%q: %v", mark, err)
		}
		if _, err := o.Last(t.Context(), "mail"); !errors.Is(err, fence.ErrForeignMark) {
			t.Errorf("reading %q: %v", mark, err)
		}
		if got := c.HGet(t.Context(), key, "mail").Val(); got != mark {
			t.Errorf("%q has become %q", mark, got)
		}
	}
	if _, err := runs(t, o, fence.Tick{Job: "other", At: noon(), Every: time.Hour, Token: 5}); err != nil {
		t.Errorf("a job beside a foreign mark: %v", err)
	}
	all, err := o.All(t.Context())
	if len(all) != 1 || all[0].Job != "other" || !errors.Is(err, fence.ErrForeignMark) {
		t.Errorf("%+v, %v", all, err)
	}
	c.Del(t.Context(), key)
	c.Set(t.Context(), key, "x", 0)
	if _, err := runs(t, o, tickAt(noon(), 5)); !errors.Is(err, fence.ErrForeignMark) || !strings.Contains(err.Error(), key) {
		t.Errorf("another type: %v", err)
	}
	_, lastErr := o.Last(t.Context(), "mail")
	_, allErr := o.All(t.Context())
	if !errors.Is(lastErr, fence.ErrForeignMark) || !errors.Is(allErr, fence.ErrForeignMark) {
		t.Errorf("reading another type: %v, %v", lastErr, allErr)
	}
	if got := c.Get(t.Context(), key).Val(); got != "x" {
		t.Errorf("the other program's value has become %q", got)
	}
}

func testOnceReads(t *testing.T, _ *redis.Client, o *fence.Once) {
	if last, err := o.Last(t.Context(), "mail"); err != nil || last != (fence.Taken{}) {
		t.Errorf("no tick: %+v, %v", last, err)
	}
	at := noon()
	tick := tickAt(at, 5)
	tick.By = "host 1, worker 2"
	if _, err := runs(t, o, tick); err != nil {
		t.Fatal(err)
	}
	last, err := o.Last(t.Context(), "mail")
	if err != nil || !last.Tick.Equal(at) || last.By != tick.By || last.Every != time.Hour || last.Failed {
		t.Errorf("%+v, %v", last, err)
	}
	if late := last.Overdue(at.Add(time.Hour)); late != 0 {
		t.Errorf("overdue by %v when it is due", late)
	}
	if late := last.Overdue(at.Add(61 * time.Minute)); late != time.Minute {
		t.Errorf("overdue by %v", late)
	}
	if late := (fence.Taken{Tick: time.UnixMilli(99999999999999), Every: time.Hour}).Overdue(at); late != 0 {
		t.Errorf("a tick of the year 5138 is overdue by %v", late)
	}
}

func TestOnceSettings(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	for _, name := range []string{"", "a{b", "}"} {
		if _, err := fence.NewOnce(c, "", name); err == nil {
			t.Errorf("election %q was accepted", name)
		}
	}
	if _, err := fence.NewOnce(nil, "", "reports"); err == nil {
		t.Error("no client was accepted")
	}
	if _, err := fence.NewOnceSQL("oracle", ""); err == nil {
		t.Error("oracle was accepted")
	}
}

func FuzzTaken(f *testing.F) {
	f.Add("1764200000000 3600000 5 1764200000001 0a0b taken host a")
	f.Add("\xff")
	m := miniredis.RunT(f)
	c := redis.NewClient(&redis.Options{Addr: m.Addr()})
	f.Cleanup(func() { c.Close() })
	o, err := fence.NewOnce(c, "", "reports")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, mark string) {
		m.HSet("mandate:{reports}:ticks", "mail", mark)
		before, foreign := o.Last(t.Context(), "mail")
		tick := tickAt(noon(), 5)
		_, err := runs(t, o, tick)
		if (foreign != nil) != errors.Is(err, fence.ErrForeignMark) {
			t.Fatalf("%q: read %v, taken %v", mark, foreign, err)
		}
		if err == nil && (before.Token > tick.Token || before.Tick.After(tick.At)) {
			t.Fatalf("%q: %+v was passed over", mark, before)
		}
	})
}
