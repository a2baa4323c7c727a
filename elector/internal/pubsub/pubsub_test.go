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
		defer b.Subscribe("news", func(s Signal) {
			if s.Kind == Message {
				received.Add(1)
			}
		})()
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

// However many subscribe, a node has one connection for them, and none when nobody
// subscribes any more.
func TestSubscribersShareAConnection(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, b *Bus, nodes []*miniredis.Miniredis) {
		var one, two []Signal
		stopOne := b.Subscribe("a", func(s Signal) { one = append(one, s) })
		synctest.Wait()
		stopTwo := b.Subscribe("a", func(s Signal) { two = append(two, s) })
		synctest.Wait()
		if n := nodes[0].Server().ClientsLen(); n != 2 { // and the one that started it
			t.Errorf("%d connections for two subscribers of one channel, want 1", n-1)
		}
		nodes[0].Publish("a", "x")
		synctest.Wait()
		stopOne()
		stopOne() // twice does no harm to the other
		nodes[0].Publish("a", "y")
		synctest.Wait()
		stopTwo()
		synctest.Wait()
		if n := nodes[0].Server().ClientsLen(); n != 1 {
			t.Errorf("%d connections although nobody subscribes", n-1)
		}
		texts := func(all []Signal) (s string) {
			for _, m := range all {
				s += map[Kind]string{Message: m.Payload, Subscribed: "+", Failed: "-"}[m.Kind]
			}
			return s
		}
		if texts(one) != "+x" || texts(two) != "+xy" {
			t.Errorf("the first received %q, the second %q; want +x and +xy", texts(one), texts(two))
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
		var got []Signal
		defer b.Subscribe("a", func(s Signal) {
			if s.Node == 1 {
				got = append(got, s)
			}
		})()
		synctest.Wait()
		nodes[1].Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd == "SUBSCRIBE" {
				c.WriteError("NOPERM no permissions to access a channel")
			}
			return cmd == "SUBSCRIBE"
		})
		peer.Close()
		time.Sleep(pingEvery + time.Second) // it is noticed by the ping
		synctest.Wait()
		if len(got) < 2 || got[0].Kind != Subscribed || got[1].Kind != Failed {
			t.Fatalf("received %+v", got)
		}
		last := got[len(got)-1]
		if last.Err == nil || !strings.Contains(last.Err.Error(), "127.0.0.1:2") || !strings.Contains(last.Err.Error(), "+subscribe &a") || !rediserr.Permanent(last.Err) {
			t.Errorf("the error names neither node nor right: %v", last.Err)
		}
	})
}

func TestCollector(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, b *Bus, nodes []*miniredis.Miniredis) {
		c := b.Collect("answers", 10)
		defer c.Close()
		if refused := c.Ready(t.Context(), time.Second); refused != nil {
			t.Fatal(refused)
		}
		nodes[0].Publish("answers", "one")
		nodes[2].Publish("answers", "two")
		nodes[2].Publish("answers", strings.Repeat("x", 11))
		synctest.Wait()
		select {
		case <-c.Arrived():
		default:
			t.Error("not signaled")
		}
		if got := c.Take(); len(got) != 2 || got[0].Payload+got[1].Payload != "onetwo" && got[0].Payload+got[1].Payload != "twoone" {
			t.Errorf("collected %+v", got)
		}
		if got := c.Take(); got != nil {
			t.Errorf("collected twice: %+v", got)
		}
	})
}
