package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// A user who lacks a right of the script takes nothing, however often he tries: half a tick would run at the second try.
func TestOnceWithoutARightReal(t *testing.T) {
	server := servertest.Redis(t)
	for _, command := range []string{"set", "zadd", "zremrangebyscore", "pexpire"} {
		server.Do(t, "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-"+command)
		o := newOnce(t, server.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "pw" }))
		tick := tickAt(noon(), 5)
		tick.Attempt = fence.NewAttempt()
		for range 2 {
			if err := o.Take(t.Context(), tick); err == nil || !strings.Contains(err.Error(), "docs/redis.md") {
				t.Errorf("without %s: %v", command, err)
			}
		}
	}
}

func onceSuite(t *testing.T, server func(t *testing.T) string) {
	for name, test := range map[string]func(t *testing.T, c *redis.Client, o *fence.Once){
		"only a later tick with a token not older": testOnceOrder,
		"one of many takes it":                     testOnceOfMany,
		"a tick that failed":                       testOnceRetry,
		"an answer that was lost":                  testOnceLostAnswer,
		"bounds":                                   testOnceBounds,
		"marks of others":                          testOnceForeign,
		"gaps":                                     testOnceGaps,
		"a job that is made known":                 testOnceMissed,
		"jobs come and go":                         testOnceManyJobs,
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
	o, err := fence.NewOnce(c, election("reports"))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// election is the name of one.
type election string

func (election) Prefix() string { return "mandate" }
func (e election) Name() string { return string(e) }

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
		"last year":          {func(k *fence.Tick) { k.At = at.AddDate(-1, 0, 0) }, "older than 1h0m0s"},
		"why":                {func(k *fence.Tick) { k.Why = "a\nb" }, "printable"},
		"never late":         {func(k *fence.Tick) { k.Within = -1 }, "how late a tick may run"},
		"no unit":            {func(k *fence.Tick) { k.Within = 3600 }, "Within is 3.6µs: give how late a tick may run, at least 1ms"},
		"late":               {func(k *fence.Tick) { k.At, k.Within = at.Add(-2*time.Second), time.Second }, "older than 1s"},
	} {
		tick := tickAt(at, 5)
		k.change(&tick)
		if _, err := runs(t, o, tick); err == nil || errors.Is(err, fence.ErrRan) || !strings.Contains(err.Error(), k.says) || len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(name, "ahead") {
			k.says = "ahead of this host's clock"
		}
		if err := inSQL.TakeFunc(t.Context(), nil, tick); err == nil || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s, in SQL: %v", name, err)
		}
	}
	if n := c.DBSize(t.Context()).Val(); n != 0 {
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
	weekly := fence.Tick{Job: "weekly", At: at, Every: 7 * 24 * time.Hour, Token: 5}
	if _, err := runs(t, o, weekly); err != nil {
		t.Error(err)
	}
	if _, err := runs(t, o, tickAt(at.Add(time.Minute+time.Second), 5)); err != nil { // after the one that must be kept for longer
		t.Error(err)
	}
	for key, days := range map[string]float64{"tick:mail": 27. / 24, "tick:weekly": 15 + 1./24, "jobs": 15 + 1./24} {
		if got := c.PTTL(t.Context(), "mandate:{reports}:"+key).Val().Hours() / 24; got < days-.01 || got > days {
			t.Errorf("%s is kept for %v days, want %v", key, got, days)
		}
	}
	// What ran is known for as long as its tick may run: the mark lives longer than Within.
	late := fence.Tick{Job: "late", At: at.Add(-5 * 24 * time.Hour), Every: time.Minute, Token: 5, Within: 6 * 24 * time.Hour}
	if _, err := runs(t, o, late); err != nil {
		t.Errorf("a late tick: %v", err)
	}
	if ttl := c.PTTL(t.Context(), "mandate:{reports}:tick:late").Val(); ttl < late.Within {
		t.Errorf("the mark of a tick that may be 6 days late is kept for %v", ttl)
	}
}

// What was not run is named beside what was: the taker finds it, whoever had skipped it.
func testOnceGaps(t *testing.T, _ *redis.Client, o *fence.Once) {
	at := noon()
	minute := func(n int) time.Time { return at.Add(time.Duration(n) * time.Minute) }
	take := func(n int, why string) error {
		_, err := runs(t, o, fence.Tick{Job: "mail", At: minute(n), Every: time.Minute, Prev: minute(n - 1), Why: why, Token: 5, Within: 3 * time.Minute})
		return err
	}
	for _, step := range []struct {
		minute int
		why    string
		want   error
	}{
		{-20, "nothing is known yet", fence.ErrSkipped}, {-2, "", nil}, {-1, "", nil}, {-1, "x", fence.ErrRan},
	} {
		if err := take(step.minute, step.why); !errors.Is(err, step.want) {
			t.Fatalf("%+v: %v", step, err)
		}
	}
	if last, err := o.Last(t.Context(), "mail"); err != nil || len(last.Skipped) != 0 {
		t.Fatalf("%+v, %v", last, err)
	}
	if err := take(1, "nobody led"); err != nil {
		t.Fatal(err)
	}
	last, err := o.Last(t.Context(), "mail")
	want := fence.Skip{After: minute(-1), Until: minute(0), Reason: "nobody led"}
	if err != nil || len(last.Skipped) != 1 || time.Since(last.Skipped[0].Found).Abs() > time.Minute {
		t.Fatalf("%+v, %v", last, err)
	}
	if last.Skipped[0].Found = (time.Time{}); last.Skipped[0] != want {
		t.Errorf("%+v, want %+v", last.Skipped[0], want)
	}
}

// A tick that is too old is recorded as skipped, once, and those that follow run.
func TestOnceSkips(t *testing.T) {
	m := miniredis.RunT(t)
	o := newOnce(t, client(t, m.Addr()))
	at := noon()
	daily := func(day int) fence.Tick {
		return fence.Tick{Job: "mail", At: at.AddDate(0, 0, day), Every: 24 * time.Hour, Prev: at.AddDate(0, 0, day-1), Why: "nobody led", Token: 5}
	}
	m.SetTime(at)
	if _, err := runs(t, o, daily(0)); err != nil {
		t.Fatal(err)
	}
	m.SetTime(at.AddDate(0, 0, 2).Add(2 * time.Hour))
	for range 2 {
		_, err := runs(t, o, daily(2))
		var skipped *fence.SkippedError
		if !errors.As(err, &skipped) || !skipped.Tick.Equal(at.AddDate(0, 0, 2)) || skipped.Within != time.Hour {
			t.Fatalf("%v", err)
		}
	}
	if missed, err := o.Missed(t.Context(), daily(2)); missed || err != nil {
		t.Errorf("a tick that was skipped is missed: %v", err)
	}
	last, err := o.Last(t.Context(), "mail")
	if err != nil || !last.Tick.Equal(at) || len(last.Skipped) != 1 || !last.Skipped[0].After.Equal(at) || !last.Skipped[0].Until.Equal(at.AddDate(0, 0, 2)) {
		t.Fatalf("%+v, %v", last, err)
	}
	if late := last.Overdue(at.AddDate(0, 0, 2)); late != 24*time.Hour {
		t.Errorf("overdue by %v: a skipped tick has not run", late)
	}
	for day := 3; day < 60; day += 2 {
		m.SetTime(at.AddDate(0, 0, day).Add(time.Minute))
		if _, err := runs(t, o, daily(day)); err != nil {
			t.Fatal(err)
		}
	}
	if last, err = o.Last(t.Context(), "mail"); err != nil || len(last.Skipped) != 20 || !last.Skipped[0].Until.Equal(at.AddDate(0, 0, 58)) {
		t.Errorf("%d gaps, %+v, %v", len(last.Skipped), last.Skipped[0], err)
	}
}

// The first ticks of a job are those after it was made known.
func testOnceMissed(t *testing.T, _ *redis.Client, o *fence.Once) {
	at := noon()
	missed := func(n int) bool {
		t.Helper()
		got, err := o.Missed(t.Context(), tickAt(at.Add(time.Duration(n)*time.Hour), 5))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if first := missed(0); first || missed(0) || missed(-1) || !missed(1) {
		t.Error("what was due before the job was known is missed, or what came after is not")
	}
	if last, err := o.Last(t.Context(), "mail"); err != nil || !last.Never || !last.Tick.Equal(at) {
		t.Errorf("%+v, %v", last, err)
	}
	if _, err := runs(t, o, tickAt(at, 5)); err != nil { // its timer fires at this moment
		t.Error(err)
	}
	if last, err := o.Last(t.Context(), "mail"); err != nil || last.Never || missed(0) {
		t.Errorf("%+v, %v", last, err)
	}
	if changed, err := o.Missed(t.Context(), tickAt(at.Add(time.Second), 5)); changed || err != nil {
		t.Errorf("a tick that was not due by the schedule before it has changed is missed: %v", err)
	}
}

// 1,500 jobs at a time, and the marks of those that are gone expire.
func testOnceManyJobs(t *testing.T, c *redis.Client, o *fence.Once) {
	for i := range 1500 {
		tick := tickAt(noon(), 5)
		tick.Job = fmt.Sprint("tenant-", i)
		if err := o.Take(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := o.All(t.Context()); err != nil || len(all) != 1500 {
		t.Fatalf("%d jobs, %v", len(all), err)
	}
	c.ZAdd(t.Context(), "mandate:{reports}:jobs", redis.Z{Score: 1, Member: "gone"})
	if err := o.Take(t.Context(), tickAt(noon(), 5)); err != nil {
		t.Fatal(err)
	}
	if n := c.ZCard(t.Context(), "mandate:{reports}:jobs").Val(); n != 1501 {
		t.Errorf("%d jobs are listed", n)
	}
}

func testOnceForeign(t *testing.T, c *redis.Client, o *fence.Once) {
	const key = "mandate:{reports}:tick:mail"
	for _, mark := range []string{"", "x", "1 1 1 1 0a taken a\nx", "1 1 1 1 0a taken a\n1 999999999999999 1 x\n", "1 1 1 1 0a taken a\n1 1 1 x", "1 2 3", "-1 1 1 1 0a taken a", "1 1 1 1 0a taken", "99999999999999999999 1 1 1 0a taken a", "1 9999999999999 1 1 0a taken a", "1 1 1 999999999999999 0a taken a", "1.5 1 1 1 0a taken a", "\xff\x00 1", "1 1 1 1 0a Taken a"} {
		c.Set(t.Context(), key, mark, 0)
		if _, err := runs(t, o, tickAt(noon(), 5)); !errors.Is(err, fence.ErrForeignMark) {
			t.Errorf("%q: %v", mark, err)
		}
		if _, err := o.Last(t.Context(), "mail"); !errors.Is(err, fence.ErrForeignMark) {
			t.Errorf("reading %q: %v", mark, err)
		}
		if got := c.Get(t.Context(), key).Val(); got != mark {
			t.Errorf("%q has become %q", mark, got)
		}
	}
	if _, err := runs(t, o, fence.Tick{Job: "other", At: noon(), Every: time.Hour, Token: 5}); err != nil {
		t.Errorf("a job beside a foreign mark: %v", err)
	}
	c.ZAdd(t.Context(), "mandate:{reports}:jobs", redis.Z{Score: 1e15, Member: "mail"}, redis.Z{Score: 1e15, Member: "expired"})
	all, err := o.All(t.Context())
	if len(all) != 1 || all[0].Job != "other" || !errors.Is(err, fence.ErrForeignMark) {
		t.Errorf("%+v, %v", all, err)
	}
	c.Del(t.Context(), key)
	c.HSet(t.Context(), key, "x", "y")
	if _, err := runs(t, o, tickAt(noon(), 5)); !errors.Is(err, fence.ErrForeignMark) || !strings.Contains(err.Error(), key) {
		t.Errorf("another type: %v", err)
	}
	_, lastErr := o.Last(t.Context(), "mail")
	_, allErr := o.All(t.Context())
	if !errors.Is(lastErr, fence.ErrForeignMark) || !errors.Is(allErr, fence.ErrForeignMark) {
		t.Errorf("reading another type: %v, %v", lastErr, allErr)
	}
	if got := c.HGet(t.Context(), key, "x").Val(); got != "y" {
		t.Errorf("the other program's value has become %q", got)
	}
}

func testOnceReads(t *testing.T, _ *redis.Client, o *fence.Once) {
	if last, err := o.Last(t.Context(), "mail"); err != nil || !last.Tick.IsZero() {
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

// Take and Last return when their context ends, although go-redis' default client does not heed it.
func TestOnceContextEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // whoever connects gets no answer
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := redis.NewClient(&redis.Options{Addr: listener.Addr().String()})
	defer c.Close()
	o := newOnce(t, c)
	ended := errors.New("the term has ended")
	for name, call := range map[string]func(ctx context.Context) error{
		"Take":   func(ctx context.Context) error { return o.Take(ctx, tickAt(noon(), 5)) },
		"Missed": func(ctx context.Context) error { _, err := o.Missed(ctx, tickAt(noon(), 5)); return err },
		"Last":   func(ctx context.Context) error { _, err := o.Last(ctx, "mail"); return err },
		"All":    func(ctx context.Context) error { _, err := o.All(ctx); return err },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(ended) })
		began := time.Now()
		if err := call(ctx); !errors.Is(err, ended) || time.Since(began) > 2*time.Second { // go-redis' own: 3 s, several times
			t.Errorf("%s: %v, after %v", name, err, time.Since(began))
		}
	}
}

// A tick with Retry that failed because its term ended is given back: its context is dead by then.
func TestOnceGivesBackUnderADeadContext(t *testing.T) {
	o := newOnce(t, client(t, miniredis.RunT(t).Addr()))
	tick := tickAt(noon(), 5)
	tick.Retry = true
	ctx, cancel := context.WithCancel(t.Context())
	err := o.Do(ctx, tick, func(ctx context.Context) error { cancel(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	tick.Token++
	if _, err := runs(t, o, tick); err != nil {
		t.Errorf("the next leader: %v", err)
	}
}

// Whoever repeats an attempt after a time-out gets the tick that it had taken.
func TestOnceAttempt(t *testing.T) {
	o := newOnce(t, client(t, miniredis.RunT(t).Addr()))
	tick := tickAt(noon(), 5)
	tick.Attempt = fence.NewAttempt()
	for range 2 {
		if err := o.Take(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
	}
	tick.Attempt = fence.NewAttempt()
	if err := o.Take(t.Context(), tick); !errors.Is(err, fence.ErrRan) {
		t.Error(err)
	}
}

func TestOnceSettings(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	for _, name := range []string{"", "a{b", "}"} {
		if _, err := fence.NewOnce(c, election(name)); err == nil {
			t.Errorf("election %q was accepted", name)
		}
	}
	if _, err := fence.NewOnce(nil, election("reports")); err == nil {
		t.Error("no client was accepted")
	}
	if _, err := fence.NewOnceSQL("oracle", ""); err == nil {
		t.Error("oracle was accepted")
	}
}

func FuzzTaken(f *testing.F) {
	f.Add("1764200000000 3600000 5 1764200000001 0a0b taken host a")
	f.Add("1764200000000 3600000 5 1764200000001 0a0b taken host a\n1 2 3 nobody led\n1 1 3\n")
	f.Add("\xff")
	m := miniredis.RunT(f)
	c := redis.NewClient(&redis.Options{Addr: m.Addr()})
	f.Cleanup(func() { c.Close() })
	o, err := fence.NewOnce(c, election("reports"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, mark string) {
		_ = m.Set("mandate:{reports}:tick:mail", mark)
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
