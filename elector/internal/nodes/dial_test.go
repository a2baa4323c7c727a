package nodes

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// A request whose answer is lost is sent once: sent again, it would meet its own effect.
func TestNothingIsSentTwice(t *testing.T) {
	bubble(t, func(t *testing.T, n *Node, m *miniredis.Miniredis) {
		c := n.Client()
		var sent atomic.Int32
		m.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
			if cmd != "INCR" {
				return false
			}
			sent.Add(1)
			peer.Close()
			return true
		})
		for i := range int32(6) {
			if err := c.Incr(t.Context(), "k").Err(); err == nil {
				t.Error("a lost answer is no error")
			}
			if n := sent.Load(); n != i+1 {
				t.Fatalf("sent %d times, want %d", n, i+1)
			}
		}
	})
}

// A port for TLS, one without it, and servers of other kinds, each with what to do.
func TestWrongPortsAreNamed(t *testing.T) {
	closes := func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) } // with data unread: a reset, as of a port for TLS
	drained := func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	web := func(c net.Conn) {
		drained(c)
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	}
	for want, o := range map[string]*redis.Options{
		"EOF (if this port speaks TLS, write rediss://":                 {Addr: servertest.Listen(t, drained)},
		" (if this port speaks TLS, write rediss://":                    {Addr: servertest.Listen(t, closes)},
		"no answer in time (if this port speaks no TLS, write redis://": {Addr: servertest.Listen(t, silent), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
		"speaks no TLS: write redis://":                                 {Addr: servertest.Listen(t, web), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
		"what answers is no Redis":                                      {Addr: servertest.Listen(t, web)},
	} {
		o.DialTimeout, o.ReadTimeout = 300*time.Millisecond, 300*time.Millisecond
		c := redis.NewClient(o)
		ns, err := Open([]redis.UniversalClient{c})
		must(t, err)
		if err := ns.NodeError(0, ns.All()[0].Client().Ping(t.Context()).Err()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		ns.Close()
		_ = c.Close()
	}
}

// When all connections are lost in silence, one request is not answered: the next one makes a new
// connection, however many there were.
func TestOneRequestMeetsADeadConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *Node, m *miniredis.Miniredis) {
		c := n.Client()
		var known sync.Map
		var lost atomic.Bool
		var answered atomic.Int64
		m.Server().SetPreHook(func(peer *server.Peer, _ string, _ ...string) bool {
			if _, old := known.Load(peer); old && lost.Load() {
				time.Sleep(time.Minute)
			} else if !lost.Load() {
				known.Store(peer, true)
				time.Sleep(time.Duration(answered.Add(1)) * time.Millisecond) // one by one: of two that end at once go-redis may keep both
			}
			return false
		})
		ping := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return c.Ping(ctx).Err()
		}
		var together sync.WaitGroup
		for range 10 {
			together.Go(func() { _ = ping() })
		}
		together.Wait()
		lost.Store(true)
		if ping() == nil {
			t.Error("a request over a dead connection was answered")
		}
		if err := ping(); err != nil {
			t.Errorf("the second request: %v", err)
		}
	})
}

// to is a connection to an address of its own.
type to struct {
	net.Conn

	addr string
}

func (c to) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.addr} }

// Where the dialer asks the sentinels, nothing is sent to a former master once there is a connection to
// the new one: neither over a connection from before, nor over one that was begun before and is ready
// only now.
func TestFormerMasterIsSentNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, now := miniredis.NewMiniRedis(), miniredis.NewMiniRedis()
		type way struct {
			m    *miniredis.Miniredis
			addr string
			wait time.Duration
		}
		var at atomic.Pointer[way]
		lead := func(w way) { at.Store(&w) }
		l := &leaving{sentinel: true, open: map[*connection]bool{}, dial: func(context.Context, string, string) (net.Conn, error) {
			w := at.Load()
			time.Sleep(w.wait)
			conn, err := w.m.Dial()
			return to{conn, w.addr}, err
		}}
		c := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Minute, Dialer: l.connect,
			PoolFIFO: true, // each connection has its turn
			MaintNotificationsConfig: &maintnotifications.Config{ // no DNS look-up
				Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone,
			}})
		defer func() { c.Close(); former.Close(); now.Close() }()
		request := func() error { return c.Incr(t.Context(), "k").Err() }
		beside := func() (ended chan struct{}) { // makes another connection than the idle ones
			ended = make(chan struct{})
			go func() { _ = c.BLPop(t.Context(), time.Second, "none").Err(); close(ended) }()
			synctest.Wait()
			return ended
		}
		lead(way{former, "former", 0})
		slow := beside()
		must(t, request())
		<-slow // there are two connections to the former one
		sent, _ := former.Get("k")
		lead(way{former, "former", 10 * time.Second})
		one, two := beside(), beside()
		late := beside() // its connection is begun now, and will be late
		lead(way{now, "now", 0})
		next := beside()
		for range 40 {
			_ = request()
		}
		time.Sleep(time.Minute)
		<-one
		<-two
		<-late
		<-next
		for range 20 {
			must(t, request())
		}
		if again, _ := former.Get("k"); again != sent {
			t.Errorf("the former master took %s requests, of them %s before", again, sent)
		}
	})
}

// A former master serves on after a planned failover, and closes no connection: the sentinels are asked before each request
// and command. Those that hang are waited for once; then all goes where the last one went.
func TestSentinelsAreAsked(t *testing.T) {
	keys := protocol.KeysOf("p", "e")
	for name, send := range map[string]func(*Node){
		"request": func(n *Node) {
			ended := make(chan *Request, 1)
			n.Send(&Request{Request: protocol.Request{Keys: &keys}, Script: protocol.ReleaseScript, Limit: time.Second, Ended: ended})
			<-ended
		},
		"command": func(n *Node) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = n.Do(ctx, redis.NewStatusCmd(ctx, "get", "k"))
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { sentinelsAreAsked(t, send) }) })
	}
}

func sentinelsAreAsked(t *testing.T, send func(*Node)) {
	servers := []*miniredis.Miniredis{miniredis.NewMiniRedis(), miniredis.NewMiniRedis()}
	var master, lag atomic.Int64 // of the sentinels
	var sent [2]atomic.Int64     // to each server
	c := redis.NewClient(&redis.Options{Addr: ofSentinel, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(lag.Load())):
		}
		i := master.Load()
		conn, err := servers[i].Dial()
		return counted{to{conn, strconv.Itoa(int(i))}, &sent[i]}, err
	}, MaintNotificationsConfig: NoMaintenance()})
	ns, err := Open([]redis.UniversalClient{c})
	must(t, err)
	defer func() { ns.Close(); c.Close(); servers[0].Close(); servers[1].Close() }()
	goesTo := func(want int64, within time.Duration) {
		t.Helper()
		began := time.Now()
		sent[0].Store(0)
		sent[1].Store(0)
		for tries := 0; tries < 2 && sent[want].Load() == 0; tries++ { // in memory go-redis does not see that a connection was closed
			send(ns.All()[0])
		}
		if sent[want].Load() == 0 || sent[1-want].Load() != 0 {
			t.Errorf("server %d got none, or the other one got some", want)
		}
		if took := time.Since(began); took > within {
			t.Errorf("it took %v", took)
		}
		time.Sleep(askEvery)
	}
	const wait = time.Second / 8
	goesTo(0, 0)
	lag.Store(int64(wait * 7 / 10))
	for i := range 3 {
		master.Store(int64(1 - i%2))
		goesTo(master.Load(), 2*wait) // for the answer, and for a connection
	}
	lag.Store(int64(time.Hour))
	goesTo(1, wait)
	goesTo(1, 0)
	time.Sleep(askLimit)
	goesTo(1, 0)
}

// counted counts what is written.
type counted struct {
	net.Conn

	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		c.writes.Add(1)
	}
	return n, err
}

// A client without a dialer of its own gets ours, which gives each address of a name its time. A dialer of the user's stays:
// names may mean something else to it.
func TestDialersOfUsersStay(t *testing.T) {
	dialer := func(o *redis.Options) dialer {
		o.MaintNotificationsConfig = NoMaintenance()
		c := redis.NewClient(o)
		defer c.Close()
		return c.Options().Dialer
	}
	tunnel := func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }
	if !ofGoRedis(dialer(&redis.Options{})) || ofGoRedis(dialer(&redis.Options{Dialer: tunnel})) || ofGoRedis(redis.NewDialer(&redis.Options{})) {
		t.Error("the dialer that go-redis makes is not the one that is replaced")
	}
}
