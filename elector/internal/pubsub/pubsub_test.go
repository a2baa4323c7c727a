package pubsub

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

func TestMain(m *testing.M) { testleak.VerifyTestMain(m) }

// onNodes runs f with a bus of n nodes in a bubble of its own.
func onNodes(t *testing.T, n int, f func(t *testing.T, b *Bus, s *testredis.Set)) {
	t.Helper()
	testredis.Bubble(t, n, func(t *testing.T, s *testredis.Set) {
		var clients []redis.UniversalClient
		for i, n := range s.Nodes {
			n.Wire = 0
			c, old := s.Client("a", i), n.Server()
			t.Cleanup(func() { c.Close(); old.Close() })
			clients = append(clients, c)
		}
		nodes, err := nodes.Open(clients)
		must(t, err)
		b := New(nodes)
		f(t, b, s)
		b.Close()
		nodes.Close()
	})
}

// What a node refuses is requested again on the same connection, less and less often: a right may be granted, and a
// server that is busy keeps the connection. A refusal does not touch the channels that the node has confirmed.
func TestRefusedSubscriptionIsRepeated(t *testing.T) {
	for name, refusal := range map[string]string{
		"loading":       "LOADING Redis is loading the dataset in memory",
		"unknown":       "ERR unsupported command",
		"without right": "NOPERM this user has no permissions to access one of the channels used as arguments",
	} {
		t.Run(name, func(t *testing.T) {
			onNodes(t, 1, func(t *testing.T, b *Bus, s *testredis.Set) {
				allowed := b.Subscribe("allowed", 99, all)
				defer allowed.Close()
				synctest.Wait()
				refuses, requests := atomic.Bool{}, atomic.Int64{}
				refuses.Store(true)
				s.Nodes[0].Server().Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
					if cmd != "SUBSCRIBE" {
						return false
					}
					requests.Add(1)
					if refuses.Load() {
						c.WriteError(refusal)
					}
					return refuses.Load()
				})
				news := b.Subscribe("news", 99, all)
				defer news.Close()
				for range 600 {
					b.Check(time.Second, time.Second/5)
					time.Sleep(time.Second)
				}
				if n := requests.Load(); n < 15 || n > 25 { // doubling from 50 ms, and then one a minute
					t.Errorf("requested %d times in ten minutes", n)
				}
				s.Nodes[0].Server().Publish("allowed", "x")
				synctest.Wait()
				if got := taken(allowed); !strings.HasSuffix(got, "x") {
					t.Errorf("beside a channel that is refused another one received %q", got)
				}
				refuses.Store(false)
				time.Sleep(time.Minute)
				taken(news)
				s.Nodes[0].Server().Publish("news", "today")
				synctest.Wait()
				if got := taken(news); got != "today" {
					t.Errorf("received %q", got)
				}
				if n := s.Nodes[0].Server().Server().ClientsLen(); n > 2 { // one is for requests
					t.Errorf("%d connections", n)
				}
			})
		})
	}
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
	onNodes(t, 1, func(t *testing.T, b *Bus, s *testredis.Set) {
		one := b.Subscribe("a", 9, all)
		synctest.Wait()
		two := b.Subscribe("a", 9, all)
		synctest.Wait()
		if n := s.Nodes[0].Server().Server().ClientsLen(); n != 1 {
			t.Errorf("%d connections for two subscribers of one channel, want 1", n)
		}
		s.Nodes[0].Server().Publish("a", "x")
		synctest.Wait()
		one.Close()
		one.Close() // twice does no harm to the other
		s.Nodes[0].Server().Publish("a", "y")
		synctest.Wait()
		two.Close()
		synctest.Wait()
		if n := s.Nodes[0].Server().Server().ClientsLen(); n != 0 {
			t.Errorf("%d connections although nobody subscribes", n)
		}
		if first, second := taken(one), taken(two); first != "+x" || second != "+xy" {
			t.Errorf("the first received %q, the second %q; want +x and +xy", first, second)
		}
	})
}

// A connection that breaks is reported with the node's name, and replaced.
func TestLostSubscriptionIsReported(t *testing.T) {
	onNodes(t, 2+1, func(t *testing.T, b *Bus, s *testredis.Set) {
		var peer *server.Peer
		s.Nodes[1].Server().Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd == "SUBSCRIBE" {
				peer = c
			}
			return false
		})
		sub := b.Subscribe("a", 9, func(s Signal) bool { return s.Node == 1 })
		defer sub.Close()
		synctest.Wait()
		s.Nodes[1].Server().Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
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
		if last.Err == nil || !strings.Contains(last.Err.Error(), "127.0.0.1:7002") || !strings.Contains(last.Err.Error(), "+subscribe &a") || !rediserr.Permanent(last.Err) {
			t.Errorf("the error names neither node nor right: %v", last.Err)
		}
	})
}

func TestCollect(t *testing.T) {
	onNodes(t, 3, func(t *testing.T, b *Bus, s *testredis.Set) {
		c := b.Subscribe("answers", 2, func(s Signal) bool { return s.Kind == Message && s.Payload != "no" })
		defer c.Close()
		if refused := c.Ready(t.Context(), time.Second); refused != nil {
			t.Fatal(refused)
		}
		s.Nodes[0].Server().Publish("answers", "no")
		for _, text := range []string{"one", "two", "one too many"} {
			s.Nodes[2].Server().Publish("answers", text)
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
			onNodes(t, 1, func(t *testing.T, b *Bus, s *testredis.Set) {
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

// After a failover by name the old server may be a replica of the new one, and repeat what this process publishes: a
// follower's claims then pass for tests, until the answer to one shows that nobody has received it.
func TestDoubtedSubscriptionIsTested(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, b *Bus, s *testredis.Set) {
		sub := b.Subscribe("mandate:{e}:events", 9, all)
		time.Sleep(11 * time.Second)
		claim := func(subscribers int) {
			t.Helper()
			c := s.Client("claims", 0)
			defer c.Close()
			must(t, c.Publish(t.Context(), b.Echo(time.Second), "").Err())
			time.Sleep(time.Second)
			b.Check(10*time.Second, time.Second, protocol.Answer{Status: protocol.Held, Subscribers: subscribers})
			time.Sleep(3 * time.Second)
		}
		claim(2)
		s.Nodes[0].FailOver(s.NewNode("127.0.0.1:7009"))
		taken(sub)
		for range 10 {
			claim(2)
		}
		if got := taken(sub); got != "" {
			t.Errorf("without a doubt it received %q", got)
		}
		if claim(0); taken(sub) != "-+" {
			t.Error("the doubt caused no new subscription")
		}
	})
}

// Where a right is missing, a subscription is not made anew at each test, nor is a refused command repeated.
func TestRefusedTestsReplaceNothing(t *testing.T) {
	for name, denied := range map[string][]string{
		"publish": {"publish"}, "publish and ping": {"publish", "ping"},
	} {
		t.Run(name, func(t *testing.T) {
			onNodes(t, 1, func(t *testing.T, b *Bus, s *testredis.Set) {
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
