package fence_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestOnce(t *testing.T) {
	onceSuite(t, func(t *testing.T) string { return miniredis.RunT(t).Addr() })
}

func TestOnceReal(t *testing.T) {
	onceSuite(t, func(t *testing.T) string { return servertest.Redis(t).Addr() })
}

func onceSuite(t *testing.T, server func(t *testing.T) string) {
	tests := map[string]func(t *testing.T, c *redis.Client, o *fence.Once){
		"one of many takes it":    testOnceOfMany,
		"an answer that was lost": testOnceLostAnswer,
		"how a run ended":         testOnceEnd,
		"20 gaps are kept":        testOnceGaps,
		"keys of others":          testOnceForeign,
	}
	for name, calls := range rules {
		tests[name] = func(t *testing.T, c *redis.Client, _ *fence.Once) { testCalls(t, c, calls) }
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := client(t, server(t))
			test(t, c, newOnce(t, c))
		})
	}
}

func newOnce(t testing.TB, c redis.UniversalClient) *fence.Once {
	t.Helper()
	o, err := fence.NewOnce(c, election("reports"))
	must(t, err)
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

// election is the name of one.
type election string

func (election) Prefix() string { return "mandate" }
func (e election) Name() string { return string(e) }

const (
	mailKey = "mandate:{reports}:tick:mail"
	jobsKey = "mandate:{reports}:jobs"
)

// noon is far from the clock of every Redis, which decides nothing.
var noon = time.Date(2020, 3, 1, 12, 0, 0, 0, time.UTC)

// every returns the tick of the job "mail" at a minute after noon, with a period in minutes, requested in time.
func every(period, minute int, token uint64) fence.Tick {
	at := noon.Add(time.Duration(minute) * time.Minute)
	p := time.Duration(period) * time.Minute
	return fence.Tick{Job: "mail", At: at, Prev: at.Add(-p), Next: at.Add(p), Now: at, Why: "away", Token: token, By: "a"}
}

func tickAt(minute int, token uint64) fence.Tick { return every(1, minute, token) }

func as(attempt string, t fence.Tick) fence.Tick { t.Attempt = attempt; return t }
func late(t fence.Tick) fence.Tick               { t.Now = t.At.Add(2 * time.Hour); return t }
func missed(t fence.Tick) fence.Tick             { t.Missed = true; return t }
func byHand(t fence.Tick) fence.Tick             { t.ByHand = true; return t }
func first(t fence.Tick) fence.Tick              { t.At, t.Prev = time.Time{}, time.Time{}; return t } // Next is the first one
func last(t fence.Tick) fence.Tick               { t.Next = time.Time{}; return t }
func patient(t fence.Tick) fence.Tick            { t.Within = 6 * 24 * time.Hour; return t }

const day = 24 * 60 // minutes

// call is what one process does: it takes a tick, and may end its run; or it ends the run of an attempt that was taken.
type call struct {
	tick fence.Tick
	end  fence.Outcome
	want error
	mark string // after it, see shown; empty: any
	log  string // what is logged: gap, no end
	days int    // for which the mark is kept at least, and hardly longer; the index at least; 0: any
}

// rules are how ticks are decided: each call finds what those above it have left.
var rules = map[string][]call{
	"a tick is taken once, and the first request of a newer token fences the older ones": {
		{tick: tickAt(0, 5), mark: "0 then 1, token 5, run 0 by 5"},
		{tick: tickAt(0, 5), want: fence.ErrRan},
		{tick: tickAt(0, 7), want: fence.ErrRan, log: "no end"},
		{tick: tickAt(1, 5), want: fence.ErrStale},
		{tick: byHand(tickAt(1, 5)), want: fence.ErrStale},
		{tick: late(tickAt(1, 5)), want: fence.ErrStale, mark: "0 then 1, token 7, run 0 by 5 unknown"},
		{tick: tickAt(-1, 7), want: fence.ErrRan},
		{tick: tickAt(1, 1<<53-1), mark: "1 then 2, token 9007199254740991, run 1 by 9007199254740991"},
		{tick: tickAt(2, 1<<53-2), want: fence.ErrStale},
	},
	"a run without an end is unknown until its leader reports one, also after a run by hand": {
		{tick: as("a", tickAt(0, 5))},
		{tick: late(tickAt(1, 7)), want: fence.ErrSkipped, mark: "1 then 2, token 7, run 0 by 5 unknown, 1-1 away", log: "gap no end"},
		{tick: as("a", tickAt(0, 5)), end: fence.TimedOut, mark: "1 then 2, token 7, run 0 by 5 timed out, 1-1 away"},
		{tick: as("b", tickAt(2, 7))},
		{tick: byHand(tickAt(2, 8)), log: "no end"},
		{tick: as("b", tickAt(2, 7)), end: fence.NothingDone, mark: "2 then 3, token 8, run none by 8, 1-1 away"},
		{tick: tickAt(2, 8)}, // of which nothing was done
	},
	"a tick of which nothing was done runs again, and only then": {
		{tick: tickAt(0, 5), end: fence.NothingDone, mark: "0 then 1, token 5, run 0 by 5 nothing done"},
		{tick: tickAt(-1, 5), want: fence.ErrRan},
		{tick: as("a", missed(tickAt(0, 7)))}, // the next leader
		{tick: tickAt(0, 7), want: fence.ErrRan},
		{tick: as("a", tickAt(0, 7)), end: fence.NothingDone},
		{tick: tickAt(0, 5), want: fence.ErrStale},
		{tick: tickAt(1, 7), end: fence.NothingDone, mark: "1 then 2, token 7, run 1 by 7 nothing done, 0-0 away", log: "gap"},
		{tick: late(tickAt(1, 7)), want: fence.ErrSkipped, mark: "1 then 2, token 7, run 1 by 7 nothing done, 1-1 away, 0-0 away", log: "gap"},
		{tick: tickAt(1, 7), want: fence.ErrRan},
	},
	"a run by hand takes no tick": {
		{tick: byHand(tickAt(0, 5)), mark: "none then 1, token 5, run none by 5"},
		{tick: tickAt(1, 5), end: fence.NothingDone},
		{tick: byHand(late(tickAt(1, 5))), end: fence.OK, mark: "1 then 2, token 5, run none by 5 ok"},
		{tick: tickAt(1, 5)}, // of which nothing was done
		{tick: byHand(first(tickAt(1, 5))), end: fence.NothingDone},
		{tick: tickAt(1, 5), want: fence.ErrRan},
	},
	"a gap is named once, and again where the answer was lost": {
		{tick: late(tickAt(-5, 5)), want: fence.ErrSkipped, mark: "none: <nil>"},
		{tick: tickAt(0, 5)},
		{tick: as("a", tickAt(3, 5)), mark: "3 then 4, token 5, run 3 by 5, 1-2 away", log: "gap"},
		{tick: as("a", tickAt(3, 5)), mark: "3 then 4, token 5, run 3 by 5, 1-2 away", log: "gap"},
		{tick: late(tickAt(5, 5)), want: fence.ErrSkipped, mark: "5 then 6, token 5, run 3 by 5, 4-5 away, 1-2 away", log: "gap"},
		{tick: late(tickAt(5, 5)), want: fence.ErrRan},
		{tick: tickAt(6, 5), mark: "6 then 7, token 5, run 6 by 5, 4-5 away, 1-2 away"},
	},
	"a tick that was taken when its sender had given up is in the gap": {
		{tick: as("a", tickAt(0, 5))},
		{tick: as("a", tickAt(2, 5)), mark: "2 then 3, token 5, run 2 by 5, 0-1 away", log: "gap"},
		{tick: as("b", tickAt(3, 5))},
		{tick: as("b", late(tickAt(3, 5))), want: fence.ErrSkipped, log: "gap"},
		{tick: as("b", late(tickAt(3, 5))), want: fence.ErrRan, log: "gap"},
		{tick: tickAt(4, 5), mark: "4 then 5, token 5, run 4 by 5, 3-3 away, 0-1 away"},
	},
	"a new job has missed nothing, nor has one whose schedule has become more frequent, or less": {
		{tick: missed(every(60, 0, 5)), want: fence.ErrNotDue, mark: "0 then 60, token 5"},
		{tick: missed(every(60, 0, 7)), want: fence.ErrRan},
		{tick: missed(every(60, 60, 7)), mark: "60 then 120, token 7, run 60 by 7"},
		{tick: missed(every(10, 90, 7)), want: fence.ErrNotDue, mark: "60 then 100, token 7, run 60 by 7"},
		{tick: missed(every(10, 100, 7)), mark: "100 then 110, token 7, run 100 by 7"},
		{tick: missed(every(60, 120, 7)), end: fence.NothingDone, mark: "120 then 180, token 7, run 120 by 7 nothing done"},
		{tick: missed(every(240, 240, 7)), mark: "240 then 480, token 7, run 240 by 7, 120-120 away", log: "gap"},
	},
	"a schedule begins later, ends, begins again, and is removed": {
		{tick: missed(first(tickAt(9, 5))), want: fence.ErrNotDue, mark: "none then 10, token 5"},
		{tick: missed(last(tickAt(10, 5))), mark: "10 then none, token 5, run 10 by 5"},
		{tick: missed(tickAt(20, 5)), want: fence.ErrNotDue, mark: "10 then 21, token 5, run 10 by 5"},
		{tick: missed(tickAt(21, 5))},
		{tick: missed(first(last(tickAt(0, 5)))), want: fence.ErrRan, mark: "21 then none, token 5, run 21 by 5"},
	},
	"a mark is kept while its tick may run, and until the next one could be missed, whichever call was the newest": {
		{tick: every(day, 0, 5), days: 5},
		{tick: missed(every(7*day, 0, 5)), want: fence.ErrRan, days: 17},
		{tick: byHand(every(7*day, 0, 5)), days: 17},
		{tick: missed(first(every(7*day, 0, 5))), want: fence.ErrRan, days: 17},
		{tick: every(7*day, 7*day, 5), days: 17},
		{tick: last(every(day, 8*day, 5)), days: 3},
		{tick: patient(last(every(day, 9*day, 5))), days: 9},
	},
	"what was taken for nobody is not running": {
		{tick: as("a", tickAt(0, 5))},
		{tick: as("a", late(tickAt(0, 5))), want: fence.ErrSkipped, mark: "0 then 1, token 5, run 0 by 5 nothing done, 0-0 away", log: "gap"},
	},
	"a mark is kept although the next tick is far away": {
		{tick: every(150*366*24*60, 0, 5)},
		{tick: every(150*366*24*60, 0, 5), want: fence.ErrRan},
	},
}

// testCalls makes the calls, each by a process of its own.
func testCalls(t *testing.T, c *redis.Client, calls []call) {
	longest := 0
	for i, k := range calls {
		var logs servertest.Logbook
		o := newOnce(t, c)
		o.Logger = logs.Logger()
		var err error
		if k.end == "" || k.tick.Attempt == "" {
			k.tick.Attempt = cmp.Or(k.tick.Attempt, fence.NewAttempt())
			_, err = o.Take(t.Context(), k.tick)
		}
		if k.end != "" && err == nil {
			err = o.End(t.Context(), k.tick, k.end, nil)
		}
		if !errors.Is(err, k.want) {
			t.Fatalf("call %d: %v, want %v", i, err, k.want)
		}
		if got := shown(t, o); k.mark != "" && got != k.mark {
			t.Fatalf("call %d leaves %q, want %q", i, got, k.mark)
		}
		longest = max(longest, k.days)
		mark, index := c.PTTL(t.Context(), mailKey).Val().Hours()/24, c.PTTL(t.Context(), jobsKey).Val().Hours()/24
		if k.days > 0 && (mark < float64(k.days)-.01 || mark > float64(k.days)+.1 || index < float64(longest)) {
			t.Fatalf("call %d: the mark is kept for %v days, the index for %v, want %d, %d", i, mark, index, k.days, longest)
		}
		logged := strings.Repeat("gap ", len(logs.Lines("ticks were not run", "job=mail", "reason=away"))) +
			strings.Repeat("no end ", len(logs.Lines("an earlier term reported no end of a run", "job=mail", "by=a")))
		if strings.TrimSpace(logged) != k.log {
			t.Fatalf("call %d logs %q, want %q", i, logs.String(), k.log)
		}
	}
}

// shown shows the mark of "mail": ticks, token, run and gaps.
func shown(t *testing.T, o *fence.Once) string {
	t.Helper()
	m, err := o.Last(t.Context(), "mail")
	if err != nil || m.Job == "" {
		return fmt.Sprint("none: ", err)
	}
	text := fmt.Sprintf("%s then %s, token %d", minute(m.Tick), minute(m.Next), m.Token)
	if r := m.Run; !r.Began.IsZero() {
		text += strings.TrimSuffix(fmt.Sprintf(", run %s by %d %s", minute(r.Tick), r.Token, r.Outcome), " ")
	}
	for _, gap := range m.Skipped {
		text += fmt.Sprintf(", %s-%s %s", minute(gap.First), minute(gap.Last), gap.Reason)
	}
	return text
}

// minute shows a time in minutes after noon.
func minute(at time.Time) string {
	if at.IsZero() {
		return "none"
	}
	return fmt.Sprint(int(at.Sub(noon).Minutes()))
}

// runs returns the error of a Do, which must be nil if, and only if, the tick was run.
func runs(t *testing.T, o *fence.Once, tick fence.Tick) error {
	t.Helper()
	ran := false
	err := o.Do(t.Context(), tick, func(context.Context) error { ran = true; return nil })
	if ran != (err == nil) {
		t.Fatalf("it ran: %t, and the error is %v", ran, err)
	}
	return err
}

func testOnceOfMany(t *testing.T, _ *redis.Client, o *fence.Once) {
	var taken atomic.Int32
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			if _, err := o.Take(t.Context(), tickAt(0, uint64(1+i%3))); err == nil {
				taken.Add(1)
			}
		})
	}
	if all.Wait(); taken.Load() != 1 {
		t.Errorf("%d have taken it", taken.Load())
	}
	_, err := o.Take(t.Context(), tickAt(1, 2))
	testfence.WantStale(t, err, 2, 3)
}

// go-redis sends a command again when its answer was lost: the tick is its own.
func testOnceLostAnswer(t *testing.T, c *redis.Client, o *fence.Once) {
	lossy := &losing{addr: c.Options().Addr}
	lost := redis.NewClient(&redis.Options{Dialer: lossy.dial, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { lost.Close() })
	must(t, runs(t, o, tickAt(0, 5)))
	lossy.lose.Store(true)
	if err := runs(t, newOnce(t, lost), tickAt(1, 5)); err != nil || lossy.lose.Load() {
		t.Fatalf("%v; an answer was lost: %t", err, !lossy.lose.Load())
	}
}

// How a run ended is recorded, also when its term has.
func testOnceEnd(t *testing.T, _ *redis.Client, o *fence.Once) {
	for i, k := range []struct {
		err     error
		outcome fence.Outcome
		again   error // of the same tick
	}{
		{nil, fence.OK, fence.ErrRan},
		{errors.New("no\nspace\xff" + strings.Repeat(".", 1000)), fence.Failed, fence.ErrRan},
		{fmt.Errorf("no mail: %w", fence.ErrNothingDone), fence.NothingDone, nil},
	} {
		ctx, end := context.WithCancel(t.Context())
		err := o.Do(ctx, tickAt(i, 5), func(context.Context) error { end(); return k.err })
		mark, err2 := o.Last(t.Context(), "mail")
		if r := mark.Run; !errors.Is(err, k.err) || err2 != nil || r.Outcome != k.outcome || r.By != "a" || time.Since(r.Ended).Abs() > time.Minute {
			t.Errorf("%v, %v: %+v", err, err2, r)
		}
		if kept := mark.Run.Error; (kept == "") != (k.err == nil) || strings.Contains(kept, "\n") || !utf8.ValidString(kept) || len(kept) > 300 {
			t.Errorf("the mark keeps %q", kept)
		}
		if err := runs(t, o, tickAt(i, 5)); !errors.Is(err, k.again) {
			t.Errorf("after %v: %v", k.outcome, err)
		}
	}
}

func testOnceGaps(t *testing.T, _ *redis.Client, o *fence.Once) {
	for n := 0; n < 50; n += 2 {
		tick := tickAt(n, 5)
		tick.Why = "a\nb\xff"
		before, err := o.Take(t.Context(), tick)
		if err != nil || n > 0 && !before.Tick.Equal(tickAt(n-2, 5).At) || time.Since(before.Clock).Abs() > time.Minute {
			t.Fatal(before, err)
		}
	}
	mark, err := o.Last(t.Context(), "mail")
	if err != nil || len(mark.Skipped) != 20 {
		t.Fatal(mark.Skipped, err)
	}
	if g := mark.Skipped[0]; minute(g.First) != "47" || g.Reason != "a b" || time.Since(g.Found).Abs() > time.Minute {
		t.Errorf("%+v", g)
	}
}

// What no Once has written refuses every tick, stays, and hides no other job. FuzzTaken has more of it.
func testOnceForeign(t *testing.T, c *redis.Client, o *fence.Once) {
	want := func(key string, errs ...error) {
		t.Helper()
		for _, err := range errs {
			text := fmt.Sprint(err)
			if !errors.Is(err, fence.ErrForeignMark) || !errors.Is(err, fence.ErrStale) || !strings.Contains(text, key) || !strings.Contains(text, "delete it") {
				t.Errorf("%v, want %s", err, key)
			}
		}
	}
	other := tickAt(0, 5)
	other.Job = "other"
	c.ZAdd(t.Context(), jobsKey, redis.Z{Score: 1, Member: "gone"})
	if err := runs(t, o, other); err != nil || c.ZCard(t.Context(), jobsKey).Val() != 1 {
		t.Fatal(err, c.ZRange(t.Context(), jobsKey, 0, -1))
	}
	c.ZAdd(t.Context(), jobsKey, redis.Z{Score: 1e15, Member: "mail"}, redis.Z{Score: 1e15, Member: "expired"})
	mark := func(tick, token string) []string {
		return []string{"tick", tick, "next", "2", "token", token, "state", "taken"}
	}
	for _, fields := range [][]string{nil, {"x", "y"}, mark("soon", "1"), mark("100000000000000", "1"), mark("1", "9007199254740992")} {
		c.Del(t.Context(), mailKey)
		if c.HSet(t.Context(), mailKey, fields); fields == nil {
			c.Set(t.Context(), mailKey, "1 2 1", 0)
		}
		held := func() string { return fmt.Sprint(c.HGetAll(t.Context(), mailKey), c.Get(t.Context(), mailKey)) }
		before := held()
		all, err := o.All(t.Context())
		if want(mailKey, err, runs(t, o, tickAt(0, 5))); len(all) != 1 || all[0].Job != "other" || held() != before {
			t.Errorf("%+v, and %s has become %s", all, before, held())
		}
	}
	c.Del(t.Context(), mailKey)
	c.Set(t.Context(), jobsKey, "x", 0)
	_, err := o.All(t.Context())
	want(jobsKey, err)
	taken := runs(t, o, tickAt(0, 5))
	if want(jobsKey, taken); c.Exists(t.Context(), mailKey).Val() != 0 {
		t.Error("half a tick was taken")
	}
}

// A user who lacks a right of the script takes nothing: the tick runs when he has them all.
func TestOnceWithoutARightReal(t *testing.T) {
	server := servertest.Redis(t)
	with := func(rights ...any) error {
		server.Do(t, append([]any{"ACL", "SETUSER", "app", "on", ">pw", "~*"}, rights...)...)
		c := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "pw" })
		return runs(t, newOnce(t, c), tickAt(0, 5))
	}
	// EVAL is the first: once the script is known it is not needed.
	all := []any{"-@all", "+eval", "+evalsha", "+time", "+hgetall", "+hset", "+zadd", "+zremrangebyscore", "+pexpire", "+pttl"}
	for _, right := range all[1:] {
		without := strings.Replace(right.(string), "+", "-", 1)
		if err := with("+@all", without); err == nil || !strings.Contains(err.Error(), "docs/redis.md") {
			t.Errorf("%s: %v", without, err)
		}
	}
	if err := with(all...); err != nil {
		t.Errorf("with these rights only: %v", err)
	}
}

// All calls return when their context ends, although go-redis' default client does not heed it.
func TestOnceContextEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // whoever connects gets no answer
	must(t, err)
	defer listener.Close()
	o := newOnce(t, client(t, listener.Addr().String()))
	ended := errors.New("the term has ended")
	for name, call := range map[string]func(ctx context.Context) error{
		"Take": func(ctx context.Context) error { _, err := o.Take(ctx, tickAt(0, 5)); return err },
		"End":  func(ctx context.Context) error { return o.End(ctx, as("a", tickAt(0, 5)), fence.OK, nil) },
		"Last": func(ctx context.Context) error { _, err := o.Last(ctx, "mail"); return err },
		"All":  func(ctx context.Context) error { _, err := o.All(ctx); return err },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(ended) })
		began := time.Now()
		if err := call(ctx); !errors.Is(err, ended) || time.Since(began) > 2*time.Second { // go-redis' own: 5 s, several times
			t.Errorf("%s: %v, after %v", name, err, time.Since(began))
		}
	}
}

// A client that cannot keep a mark, or whose requests may hang for ever, is refused; what wraps one is not looked into.
func TestOnceClients(t *testing.T) {
	one := func(o redis.Options) redis.UniversalClient { return redis.NewClient(&o) }
	cluster := func(o redis.ClusterOptions) redis.UniversalClient { return redis.NewClusterClient(&o) }
	patient, ring := one(redis.Options{ReadTimeout: -1}), redis.NewRing(&redis.RingOptions{})
	for says, clients := range map[string][]redis.UniversalClient{
		"<nil>": {
			one(redis.Options{}), one(redis.Options{ReadTimeout: -1, ContextTimeoutEnabled: true}), cluster(redis.ClusterOptions{}),
			struct{ redis.UniversalClient }{patient},
		},
		"may hang": {
			patient, one(redis.Options{ReadTimeout: -2}), one(redis.Options{WriteTimeout: -1}),
			cluster(redis.ClusterOptions{ReadTimeout: -1}), cluster(redis.ClusterOptions{ReadTimeout: -2}),
		},
		"redis.Ring": {ring},
	} {
		for i, c := range clients {
			defer c.Close()
			if _, err := fence.NewOnce(c, election("reports")); !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("client %d: %v, want %q", i, err, says)
			}
		}
	}
	_, err1 := fence.NewRedis(ring, mark)
	_, err2 := fence.OnElection(ring, "", "reports")
	if err1 == nil || err2 == nil {
		t.Errorf("a redis.Ring: %v, %v", err1, err2)
	}
}

// Whatever the fields of a mark hold, reading it and taking a tick agree whether it is foreign, and no tick of it is passed over.
func FuzzTaken(f *testing.F) {
	f.Add("1583064000000", "1583064060000", "5", "taken", "1583064000001", "1 2 3 a nobody led\n1 1 3\n")
	f.Add("1583064060000", "1583064120000", "5", "owed", "0", "")
	f.Add("1", "2", "9007199254740992", "taken", "0", "")
	f.Add("1", "2", "3", "taken", "x", "")
	f.Add("1", "2", "3", "", "0", "")
	f.Add("1", "000000000000002", "3", "taken", "0", "")
	f.Add("\xff", "-1", "", "x", "0", "\n")
	m := miniredis.RunT(f)
	c := redis.NewClient(&redis.Options{Addr: m.Addr()})
	f.Cleanup(func() { c.Close() })
	o := newOnce(f, c)
	f.Fuzz(func(t *testing.T, tick, next, token, state, began, gaps string) {
		m.FlushAll()
		m.HSet(mailKey, "tick", tick, "next", next, "token", token, "state", state, "began", began, "gaps", gaps)
		before, foreign := o.Last(t.Context(), "mail")
		taken := tickAt(1, 7)
		err := runs(t, o, taken)
		if (foreign != nil) != errors.Is(err, fence.ErrForeignMark) || foreign != nil && m.HGet(mailKey, "tick") != tick {
			t.Fatalf("read %v, taken %v", foreign, err)
		}
		if err == nil && (before.Token > taken.Token || before.Tick.After(taken.At)) {
			t.Fatalf("%+v was passed over", before)
		}
	})
}
