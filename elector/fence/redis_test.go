package fence_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const (
	mark = "{orders}:mark"
	list = "{orders}:list"
)

// push is what a leader writes.
var push = fence.NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[1], unpack(ARGV, 2)) -- the new length`)

func TestRedis(t *testing.T) {
	redisSuite(t, func(t *testing.T) string {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		return m.Addr()
	})
}

func TestRedisReal(t *testing.T) {
	redisSuite(t, func(t *testing.T) string { return servertest.Redis(t).Addr() })
}

func redisSuite(t *testing.T, server func(t *testing.T) string) {
	for name, test := range map[string]func(t *testing.T, addr string){
		"older tokens are refused":                 testRedisRefuses,
		"the script sees its own keys and args":    testRedisScript,
		"a server that forgot the script":          testRedisNoScript,
		"bad marks":                                testRedisBadMarks,
		"a script cut off in the middle":           testRedisHalfScript,
		"the election's own counter":               testRedisOnElection,
		"a command's failure is not a stale token": testRedisOtherErrors,
	} {
		t.Run(name, func(t *testing.T) { test(t, server(t)) })
	}
}

func client(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	return c
}

func newRedis(t *testing.T, c redis.UniversalClient) *fence.Redis {
	t.Helper()
	r, err := fence.NewRedis(c, mark)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(r *fence.Redis, token uint64, value string) error {
	return r.Run(context.Background(), token, push, []string{list}, value).Err()
}

func wantList(t *testing.T, c redis.UniversalClient, want ...string) {
	t.Helper()
	got, err := c.LRange(t.Context(), list, 0, -1).Result()
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("the list holds %q, %v; want %q", got, err, want)
	}
}

func testRedisRefuses(t *testing.T, addr string) {
	c := client(t, addr)
	r := newRedis(t, c)
	// 2^53-2 and 2^53-1 differ by less than a careless conversion keeps.
	for _, step := range []struct {
		token, newest uint64
		stale         bool
	}{{5, 5, false}, {5, 5, false}, {4, 5, true}, {1794204187000, 1794204187000, false}, {1794204186999, 1794204187000, true},
		{1<<53 - 1, 1<<53 - 1, false}, {1<<53 - 2, 1<<53 - 1, true}} {
		err := write(r, step.token, "x")
		if step.stale {
			testfence.WantStale(t, err, step.token, step.newest)
		} else if err != nil {
			t.Fatalf("token %d: %v", step.token, err)
		}
		if got, _ := c.Get(t.Context(), mark).Uint64(); got != step.newest {
			t.Fatalf("the mark is %d after token %d, want %d", got, step.token, step.newest)
		}
	}
	wantList(t, c, "x", "x", "x", "x")
	for _, token := range []uint64{0, 1 << 53} {
		if err := write(r, token, "x"); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("token %d: %v, want another error", token, err)
		}
	}
	c.FlushAll(t.Context())
	if err := r.Raise(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	testfence.WantStale(t, write(r, 5, "x"), 5, 6)
	testfence.WantStale(t, r.Raise(t.Context(), 5), 5, 6)
}

func testRedisScript(t *testing.T, addr string) {
	r := newRedis(t, client(t, addr))
	got, err := r.Run(t.Context(), 1, fence.NewScript(`return {#KEYS, KEYS[1], KEYS[2], #ARGV, ARGV[1], ARGV[2]}`),
		[]string{"a", "b"}, "x", 7).Slice()
	if err != nil || len(got) != 6 || got[0] != int64(2) || got[1] != "a" || got[2] != "b" || got[3] != int64(2) || got[4] != "x" || got[5] != "7" {
		t.Fatalf("got %v, %v", got, err)
	}
	many := make([]any, 20000)
	for i := range many {
		many[i] = i
	}
	n, err := r.Run(t.Context(), 1, fence.NewScript(`return #ARGV`), nil, many...).Int()
	if err != nil || n != len(many) {
		t.Fatalf("%d arguments arrived, %v; want %d", n, err, len(many))
	}
}

func testRedisNoScript(t *testing.T, addr string) {
	c := client(t, addr)
	r := newRedis(t, c)
	for range 2 {
		if err := write(r, 5, "x"); err != nil {
			t.Fatal(err)
		}
		if err := c.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	testfence.WantStale(t, write(r, 4, "x"), 4, 5)
	wantList(t, c, "x", "x")
}

func testRedisBadMarks(t *testing.T, addr string) {
	c := client(t, addr)
	r := newRedis(t, c)
	set := func(value string) func() { return func() { c.Set(t.Context(), mark, value, 0) } }
	for what, spoil := range map[string]func(){
		"another type than a string":                           func() { c.RPush(t.Context(), mark, "x") },
		`"5x", which is no token`:                              set("5x"),
		`"", which is no token`:                                set(""),
		`"-5", which is no token`:                              set("-5"),
		`"+5", which is no token`:                              set("+5"),
		`"1e3", which is no token`:                             set("1e3"),
		`" 4 script: x", which is no token`:                    set(" 4 script: x"),
		`"a>b> 5", which is no token`:                          set("a>b> 5"),           // as if the guard's own text ended there
		`"9007199254740992", which is no token`:                set("9007199254740992"), // 2^53
		`"18446744073709551616", which is no token`:            set("18446744073709551616"),
		`"99999999999999999999", which is no token`:            set("99999999999999999999"),
		`"a?b?????????", which is no token`:                    set("a\nb\x1b\u202e\u009b\xff\xfe\xfd"),
		`"` + strings.Repeat("7", 40) + `", which is no token`: set(strings.Repeat("7", 1000)),
	} {
		c.FlushAll(t.Context())
		spoil()
		before := c.Dump(t.Context(), mark).Val()
		for _, token := range []uint64{5, 1<<53 - 1} {
			testfence.WantForeign(t, write(r, token, "x"), token, mark, what)
		}
		wantList(t, c)
		if after := c.Dump(t.Context(), mark).Val(); after != before {
			t.Errorf("%s: the mark was written", what)
		}
	}
	for _, bad := range []func() (*fence.Redis, error){
		func() (*fence.Redis, error) { return fence.NewRedis(nil, mark) },
		func() (*fence.Redis, error) { return fence.NewRedis(c, "") },
		func() (*fence.Redis, error) { return fence.NewRedis(c, "mandate:{orders}:fence") },
		func() (*fence.Redis, error) { return fence.OnElection(nil, "", "orders") },
		func() (*fence.Redis, error) { return fence.OnElection(c, "", "") },
		func() (*fence.Redis, error) { return fence.OnElection(c, "", "{orders}") },
		func() (*fence.Redis, error) { return fence.OnElection(c, "{app}:", "orders") }, // the tag would be another one
	} {
		if r, err := bad(); err == nil {
			t.Errorf("accepted: %v", r.Mark())
		}
	}
}

func testRedisOtherErrors(t *testing.T, addr string) {
	c := client(t, addr)
	r := newRedis(t, c)
	c.Set(t.Context(), list, "not a list", 0)
	if err := write(r, 5, "x"); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("%v, want WRONGTYPE", err)
	}
}

func testRedisOnElection(t *testing.T, addr string) {
	c := client(t, addr)
	r, err := fence.OnElection(c, "", "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := write(r, 5, "x"); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "missing") {
		t.Fatalf("before any election: %v", err)
	}
	first := lead(t, addr, "a")
	if err := write(r, first.Token(), "a"); err != nil {
		t.Fatalf("the leader's: %v", err)
	}
	if got, _ := c.Get(t.Context(), r.Mark()).Uint64(); got != first.Token() {
		t.Fatalf("the election's counter is %d, was %d: nobody but the election may write it", got, first.Token())
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := lead(t, addr, "b")
	// The successor has written nothing yet.
	testfence.WantStale(t, write(r, first.Token(), "late"), first.Token(), second.Token())
	if err := r.Raise(t.Context(), second.Token()); err != nil {
		t.Fatal(err)
	}
	if err := write(r, second.Token(), "b"); err != nil {
		t.Fatal(err)
	}
	wantList(t, c, "a", "b")
}

// lead wins a real election.
func lead(t *testing.T, addr, id string) *elector.Term {
	t.Helper()
	q, err := elector.Open("redis://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	e, err := elector.New(q, elector.Config{Election: "orders", ID: id, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	term, err := e.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.Close(context.Background()) })
	return term
}
