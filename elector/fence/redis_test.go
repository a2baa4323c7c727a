package fence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

var must = servertest.Must

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

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
	must(t, err)
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
	must(t, r.Raise(t.Context(), 6))
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
		must(t, write(r, 5, "x"))
		must(t, c.ScriptFlush(t.Context()).Err())
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
	must(t, err)
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
	must(t, first.Close(t.Context()))
	second := lead(t, addr, "b")
	// The successor has written nothing yet.
	testfence.WantStale(t, write(r, first.Token(), "late"), first.Token(), second.Token())
	must(t, r.Raise(t.Context(), second.Token()))
	must(t, write(r, second.Token(), "b"))
	wantList(t, c, "a", "b")
}

// lead wins a real election.
func lead(t *testing.T, addr, id string) *elector.Term {
	t.Helper()
	term, err := testcluster.NewCandidate(t, testcluster.Open(t, "redis://"+addr), id).Campaign(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = term.Close(context.Background()) })
	return term
}

// pausing is a connection whose leader is stopped in the middle of a request.
type pausing struct {
	net.Conn
	gate *gate
}

type gate struct {
	at      string // stop in the middle of the request that holds this
	stopped chan struct{}
	resume  chan struct{}
}

func (p *pausing) Write(b []byte) (int, error) {
	if !strings.Contains(strings.ToLower(string(b)), p.gate.at) {
		return p.Conn.Write(b)
	}
	n, err := p.Conn.Write(b[:len(b)/2])
	if err != nil {
		return n, err
	}
	close(p.gate.stopped)
	<-p.gate.resume
	m, err := p.Conn.Write(b[n:])
	return n + m, err
}

// pauseAt is a leader's client that stops when half of a request is sent.
func pauseAt(t *testing.T, addr, at string) (*redis.Client, *gate) {
	g := &gate{at: at, stopped: make(chan struct{}), resume: make(chan struct{})}
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, WriteTimeout: -1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &pausing{conn, g}, err
		}})
	t.Cleanup(func() { c.Close() })
	return c, g
}

func testRedisHalfScript(t *testing.T, addr string) {
	c := client(t, addr)
	next := newRedis(t, c)
	must(t, write(next, 5, "first")) // the server knows the script
	paused, g := pauseAt(t, addr, "evalsha")
	result := make(chan error, 1)
	go func() { result <- write(newRedis(t, paused), 5, "late") }()
	<-g.stopped
	if err := write(next, 7, "second"); err != nil {
		t.Fatalf("the successor: %v", err)
	}
	close(g.resume)
	testfence.WantStale(t, <-result, 5, 7)
	wantList(t, c, "first", "second")
}

// losing makes connections that lose the answer to the next script.
type losing struct {
	addr string
	lose atomic.Bool
}

func (l *losing) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, l.addr)
	return &losingConn{Conn: conn, l: l}, err
}

type losingConn struct {
	net.Conn
	l    *losing
	next bool
}

func (c *losingConn) Write(b []byte) (int, error) {
	c.next = strings.Contains(strings.ToLower(string(b)), "evalsha")
	return c.Conn.Write(b)
}

func (c *losingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.next && c.l.lose.CompareAndSwap(true, false) {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// What a Cluster can't do in one step is refused before a connection is made.
func TestClusterSlotsAreChecked(t *testing.T) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			t.Error("something was sent")
			return nil, errors.New("no")
		}})
	defer c.Close()
	r := newRedis(t, c)
	err := r.Run(t.Context(), 5, push, []string{list, "{others}:list"}, "x").Err()
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "{others}") || !strings.Contains(err.Error(), "hash tag") {
		t.Errorf("%v: want the key, and what to do", err)
	}
}

// A cluster of one node answers as one of many does.
func TestClusterReal(t *testing.T) {
	addr := servertest.Redis(t, "--cluster-enabled", "yes").Addr()
	node := client(t, addr)
	must(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if info, _ := node.ClusterInfo(t.Context()).Result(); strings.Contains(info, "cluster_state:ok") {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the cluster does not come up")
		}
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	defer c.Close()
	r := newRedis(t, c)
	must(t, write(r, 5, "x"))
	testfence.WantStale(t, write(r, 4, "x"), 4, 5)
	wantList(t, c, "x")
}

// A mark that can't be read is no mark that refuses: the caller may try again.
func TestMarkThatCanNotBeReadIsNotStale(t *testing.T) {
	m := miniredis.RunT(t)
	r := newRedis(t, client(t, m.Addr()))
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == "GET" {
			c.WriteError("NOPERM no permissions to access a key")
		}
		return cmd == "GET"
	})
	if err := write(r, 7, "x"); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "NOPERM") {
		t.Error(err)
	}
	if m.Exists(list) {
		t.Error("something was written")
	}
}
