package pubsub

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

func TestMain(m *testing.M) { testleak.VerifyTestMain(m) }

// onNodes runs f with a bus of n nodes, in the memory of a bubble.
func onNodes(t *testing.T, n int, f func(t *testing.T, b *Bus, nodes []*miniredis.Miniredis)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var servers []*miniredis.Miniredis
		var clients []redis.UniversalClient
		for i := range n {
			m := miniredis.NewMiniRedis()
			c := redis.NewClient(&redis.Options{
				Addr:   "127.0.0.1:" + string('1'+rune(i)),
				Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
			})
			if err := c.Ping(t.Context()).Err(); err != nil { // starts the node, without a listener
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(); m.Close() })
			servers, clients = append(servers, m), append(clients, c)
		}
		nodes, err := quorum.Open(clients)
		if err != nil {
			t.Fatal(err)
		}
		b := New(nodes)
		f(t, b, servers)
		b.Close()
		nodes.Close()
		synctest.Wait()
	})
}

// A Redis that restarts answers LOADING for a while, to SUBSCRIBE too, and keeps the
// connection: a process that does not subscribe again never receives anything.
func TestRefusedSubscriptionIsRepeated(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, b *Bus, nodes []*miniredis.Miniredis) {
		loading := atomic.Bool{}
		loading.Store(true)
		nodes[0].Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd != "SUBSCRIBE" || !loading.Load() {
				return false
			}
			c.WriteError("LOADING Redis is loading the dataset in memory")
			return true
		})
		var received atomic.Int64
		defer b.Subscribe("news", 0, func(s Signal) bool {
			if s.Kind == Message {
				received.Add(1)
			}
			return false
		}).Close()
		time.Sleep(time.Minute)
		loading.Store(false)
		time.Sleep(1100 * time.Millisecond) // the next attempt is a second away at most
		nodes[0].Publish("news", "today")
		synctest.Wait()
		if received.Load() != 1 {
			t.Errorf("received %d messages, want 1", received.Load())
		}
	})
}

// all is a filter that lets every signal through.
func all(Signal) bool { return true }

// taken is what a subscription has received.
func taken(s *Subscription) (text string) {
	for _, m := range s.Take() {
		text += map[Kind]string{Message: m.Payload, Subscribed: "+", Failed: "-"}[m.Kind]
	}
	return text
}

// However many subscribe, a node has one connection for them, and none when nobody
// subscribes any more.
func TestSubscribersShareAConnection(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, b *Bus, nodes []*miniredis.Miniredis) {
		one := b.Subscribe("a", 9, all)
		synctest.Wait()
		two := b.Subscribe("a", 9, all)
		synctest.Wait()
		if n := nodes[0].Server().ClientsLen(); n != 2 { // and the one that started it
			t.Errorf("%d connections for two subscribers of one channel, want 1", n-1)
		}
		nodes[0].Publish("a", "x")
		synctest.Wait()
		one.Close()
		one.Close() // twice does no harm to the other
		nodes[0].Publish("a", "y")
		synctest.Wait()
		two.Close()
		synctest.Wait()
		if n := nodes[0].Server().ClientsLen(); n != 1 {
			t.Errorf("%d connections although nobody subscribes", n-1)
		}
		if first, second := taken(one), taken(two); first != "+x" || second != "+xy" {
			t.Errorf("the first received %q, the second %q; want +x and +xy", first, second)
		}
	})
}

// A connection that breaks is reported with the node's name, and replaced.
func TestLostSubscriptionIsReported(t *testing.T) {
	onNodes(t, 2+1, func(t *testing.T, b *Bus, nodes []*miniredis.Miniredis) {
		var peer *server.Peer
		nodes[1].Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd == "SUBSCRIBE" {
				peer = c
			}
			return false
		})
		sub := b.Subscribe("a", 9, func(s Signal) bool { return s.Node == 1 })
		defer sub.Close()
		synctest.Wait()
		nodes[1].Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd == "SUBSCRIBE" {
				c.WriteError("NOPERM no permissions to access a channel")
			}
			return cmd == "SUBSCRIBE"
		})
		peer.Close()
		time.Sleep(time.Second)
		b.Check(time.Second, time.Second) // the server notices with the next command
		time.Sleep(2 * time.Second)
		got := sub.Take()
		if len(got) < 2 || got[0].Kind != Subscribed || got[1].Kind != Failed {
			t.Fatalf("received %+v", got)
		}
		last := got[len(got)-1]
		if last.Err == nil || !strings.Contains(last.Err.Error(), "127.0.0.1:2") || !strings.Contains(last.Err.Error(), "+subscribe &a") || !rediserr.Permanent(last.Err) {
			t.Errorf("the error names neither node nor right: %v", last.Err)
		}
	})
}

func TestCollect(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, b *Bus, nodes []*miniredis.Miniredis) {
		c := b.Subscribe("answers", 2, func(s Signal) bool { return s.Kind == Message && s.Payload != "no" })
		defer c.Close()
		if refused := c.Ready(t.Context(), time.Second); refused != nil {
			t.Fatal(refused)
		}
		nodes[0].Publish("answers", "no")
		for _, text := range []string{"one", "two", "one too many"} {
			nodes[2].Publish("answers", text)
		}
		synctest.Wait()
		select {
		case <-c.Arrived():
		default:
			t.Error("not signaled")
		}
		if got := taken(c); got != "onetwo" {
			t.Errorf("collected %q", got)
		}
		if got := c.Take(); got != nil {
			t.Errorf("collected twice: %+v", got)
		}
	})
}

// busOn returns a bus of one node, and what ends it.
func busOn(t *testing.T, s *testredis.Set) (b *Bus, end func()) {
	t.Helper()
	client := s.Client("a", 0)
	nodes, err := quorum.Open([]redis.UniversalClient{client})
	if err != nil {
		t.Fatal(err)
	}
	b, old := New(nodes), s.Nodes[0].Server()
	return b, func() {
		b.Close()
		nodes.Close()
		client.Close()
		old.Close()
	}
}

// A subscription whose connection is in order and receives nothing is made anew, once it is tested: the
// server's name has moved to another one, or a firewall has forgotten the connection.
func TestDeafSubscriptionIsReplaced(t *testing.T) {
	for name, deafen := range map[string]func(s *testredis.Set){
		"the name has moved": func(s *testredis.Set) {
			s.Nodes[0].Move(s.NewNode("127.0.0.1:7009"))
		},
		"the connection is forgotten": func(s *testredis.Set) { s.Nodes[0].Swallow() },
	} {
		t.Run(name, func(t *testing.T) {
			testredis.Bubble(t, 1, func(t *testing.T, s *testredis.Set) {
				b, end := busOn(t, s)
				defer end()
				sub := b.Subscribe("mandate:{e}:events", 9, all)
				time.Sleep(time.Second)
				const every, within = 10 * time.Second, 2 * time.Second
				check := func(times int) {
					for range times {
						b.Check(every, within)
						time.Sleep(every)
					}
				}
				check(5)
				if got := taken(sub); got != "+" {
					t.Fatalf("received %q while all was in order", got)
				}
				deafen(s)
				check(2)
				if got := taken(sub); got != "-+" {
					t.Errorf("received %q, want a failure and a new subscription", got)
				}
				s.Nodes[0].Server().Publish("mandate:{e}:events", "x")
				time.Sleep(time.Second)
				if got := taken(sub); got != "x" {
					t.Errorf("received %q", got)
				}
			})
		})
	}
}

// Where a right is missing, a subscription is not made anew at each test, nor is a refused command repeated.
func TestRefusedTestsReplaceNothing(t *testing.T) {
	for name, denied := range map[string][]string{
		"publish": {"publish"}, "publish and ping": {"publish", "ping"},
	} {
		t.Run(name, func(t *testing.T) {
			testredis.Bubble(t, 1, func(t *testing.T, s *testredis.Set) {
				b, end := busOn(t, s)
				defer end()
				s.Nodes[0].Deny(denied...)
				sub := b.Subscribe("mandate:{e}:events", 99, all)
				for range 20 {
					b.Check(time.Second, time.Second/5)
					time.Sleep(time.Second)
				}
				if got := taken(sub); len(got) > len("+-+") || got[len(got)-1] != '+' {
					t.Errorf("received %q", got)
				}
			})
		})
	}
}
