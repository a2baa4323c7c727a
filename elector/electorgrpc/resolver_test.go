package electorgrpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgrpc"
)

func TestRPCsFollowTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		candidates := []*elector.Elector{s.start("a", "a:1"), s.start("b", "http://b:1")}
		s.redis.Lead(candidates[0])
		conn := s.client("mandate:///orders", electorgrpc.Config{})
		served := map[string]int{}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				by, err := call(t, conn, grpc.WaitForReady(true))
				if err != nil {
					t.Errorf("after %v: %v", served, err)
				}
				served[by]++
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
		for i := range 20 {
			time.Sleep(3 * time.Second) // beyond the cool-down of the one before
			if err := candidates[i%2].Resign(t.Context()); err != nil {
				t.Error(err)
			}
			moved := time.Now()
			for !candidates[(i+1)%2].IsLeader() {
				time.Sleep(time.Millisecond)
			}
			wantCall(t, conn, string("ba"[i%2]))
			if took := time.Since(moved); took > 200*time.Millisecond {
				t.Errorf("hand-over %d: an RPC reached the next leader after %v", i, took)
			}
		}
		close(stop)
		wg.Wait()
		if served["a"] < 10_000 || served["b"] < 10_000 || len(served) != 2 {
			t.Errorf("served by %v", served)
		}
	})
}

func TestRPCsWhileNoCandidateLeads(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		conn := s.client("mandate:///orders", electorgrpc.Config{})
		if why := wantUnavailable(t, conn); !strings.Contains(why, "no candidate leads the election orders: wait for one") {
			t.Error(why)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			began := time.Now()
			wantCall(t, conn, "a")
			if waited := time.Since(began); waited < lease {
				t.Errorf("it waited for %v", waited)
			}
		})
		time.Sleep(lease)
		a := s.start("a", "a:1")
		wg.Wait()
		if _, err := call(t, conn); err != nil { // needs no wait
			t.Error(err)
		}
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if why := wantUnavailable(t, conn); !strings.Contains(why, "no candidate leads the election orders") {
			t.Error(why)
		}
	})
}

func TestRPCsReportWhyNoCandidateCanLead(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		q := s.redis.Quorum("client")
		orders, err := q.Election("orders")
		if err != nil {
			t.Fatal(err)
		}
		if err := orders.As("ann").Pause(t.Context(), 0, "the disk"); err != nil {
			t.Fatal(err)
		}
		conn := s.clientOn(q, "mandate:///orders", electorgrpc.Config{})
		conn.Connect()
		time.Sleep(2 * time.Second)
		if why := wantUnavailable(t, conn); !strings.Contains(why, "no candidate leads the election orders: it is paused by ann: the disk") {
			t.Error(why)
		}
	})
}

func TestRPCsWhenRedisCannotBeReached(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a := s.start("a", "a:1")
		s.redis.Lead(a)
		heal := s.redis.CutOff("client")
		conn := s.client("mandate:///orders", electorgrpc.Config{})
		if why := wantUnavailable(t, conn); !strings.Contains(why, "who leads the election orders is not known") {
			t.Error(why)
		}
		heal()
		wantCall(t, conn, "a")
		// The connection outlives an outage of Redis for the client alone.
		s.redis.CutOff("client")
		time.Sleep(3 * lease)
		wantCall(t, conn, "a")
	})
}

func TestLeaderWithoutAUsableAddress(t *testing.T) {
	for name, c := range map[string]struct{ advertised, want string }{
		"none":    {"", "the leader of orders, a, advertises no address: give each candidate"},
		"no port": {"10.0.0.7", `the leader of orders, a, has no usable address: it advertises "10.0.0.7", which is no address such as 10.0.0.7:8080`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				a := s.start("a", c.advertised)
				s.redis.Lead(a)
				conn := s.client("mandate:///orders", electorgrpc.Config{})
				if why := wantUnavailable(t, conn); !strings.Contains(why, c.want) {
					t.Error(why)
				}
				if err := a.SetAdvertise("a:1"); err != nil {
					t.Fatal(err)
				}
				wantCall(t, conn, "a")
			})
		})
	}
}

func TestAddressMapsWhatTheLeaderAdvertises(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.redis.Lead(s.start("a", "http://web.a:8080"))
		conn := s.client("mandate:///orders", electorgrpc.Config{Address: func(advertised string) (string, error) {
			if advertised != "http://web.a:8080" {
				return "", errors.New("what is " + advertised)
			}
			return "a:1", nil
		}})
		wantCall(t, conn, "a")
	})
}

// Anyone who may publish could send the clients' requests to a server of theirs.
func TestForgedMessageChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a := s.start("a", "a:1")
		s.redis.Lead(a)
		conn := s.client("mandate:///orders", electorgrpc.Config{})
		wantCall(t, conn, "a")
		dials := s.dials("a:1")
		mallory := s.redis.Client("mallory")
		for _, kind := range []elector.EventKind{elector.EventElected, elector.EventAddress, elector.EventReleased, elector.EventVacant} {
			for _, who := range []string{"a", "evil"} {
				for i := range uint64(2) {
					b, err := json.Marshal(elector.Event{
						Version: 1, Kind: kind, Election: "orders", Candidate: who, Incarnation: a.Incarnation(), Advertise: "evil:1", Token: a.Term().Token() + i, Time: time.Now(),
					})
					if err != nil {
						t.Fatal(err)
					}
					if n := mallory.Publish(t.Context(), "mandate:{orders}:events", b).Val(); n == 0 {
						t.Fatal("nothing received the message")
					}
				}
				for range 100 {
					if by, err := call(t, conn); by != "a" || err != nil {
						t.Fatalf("after a forged %s of %s: %q answers, %v", kind, who, by, err)
					}
					time.Sleep(lease / 50)
				}
			}
		}
		if s.dials("evil:1") != 0 || s.dials("a:1") != dials {
			t.Errorf("dialed %v", s.dialed)
		}
	})
}

// A leader that is gone without a report is noticed by the end of its lease; a client that can't connect to it need
// not wait for that.
func TestResolveNowFindsWhatNoMessageReports(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a := s.start("a", "a:1")
		s.redis.Lead(a)
		f := s.resolver(s.redis.Quorum("client"))
		time.Sleep(time.Second)
		s.redis.CutOff("a")
		if err := s.redis.Client("operator").Del(t.Context(), "mandate:{orders}:lock").Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := f.last(); got != "a:1" {
			t.Fatalf("nothing has reported it: %q", got)
		}
		f.ResolveNow(resolver.ResolveNowOptions{})
		time.Sleep(100 * time.Millisecond)
		if got := f.last(); !strings.Contains(got, "no candidate leads the election orders") {
			t.Errorf("Redis shows no leader: %q", got)
		}
	})
}

// Each failed attempt to connect asks for it, of each of many clients.
func TestResolveNowIsRateLimited(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.redis.Lead(s.start("a", "a:1"))
		var sent atomic.Int64
		f := s.resolver(s.counted(&sent))
		time.Sleep(2 * lease)
		before := sent.Load()
		time.Sleep(20 * lease)
		quiet := sent.Load() - before
		before = sent.Load()
		for range 20 * lease / time.Millisecond {
			f.ResolveNow(resolver.ResolveNowOptions{})
			time.Sleep(time.Millisecond)
		}
		busy := sent.Load() - before
		if queries := int64(20 * lease / time.Second); busy < quiet+queries/2 || busy > quiet+3*queries {
			t.Errorf("%d requests by themselves, %d when ResolveNow is called all the time", quiet, busy)
		}
		if n := f.count(); n != 1 {
			t.Errorf("%d states of one leader", n)
		}
	})
}

func TestTargetsThatNameNoElection(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.redis.Lead(s.start("a", "a:1"))
		wantCall(t, s.client("mandate:orders", electorgrpc.Config{}), "a")
		for target, want := range map[string]string{
			"mandate:///":                    "names no election: write mandate:///ELECTION",
			"mandate://orders":               `has the authority "orders": write mandate:///ELECTION with three slashes`,
			"mandate://10.0.0.1:6379/orders": "with three slashes",
			"mandate:///orders?db=1":         "write ? and # in the name of an election as %3F and %23",
			"mandate:///or%20ders":           "Election",
			"mandate:///%7Borders%7D":        "Election",
		} {
			if _, err := call(t, s.client(target, electorgrpc.Config{})); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", target, err, want)
			}
		}
		if _, err := call(t, s.clientOn(nil, "mandate:///orders", electorgrpc.Config{})); err == nil || !strings.Contains(err.Error(), "the quorum is nil") {
			t.Error(err)
		}
	})
}

func TestCloseOfTheQuorum(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.redis.Lead(s.start("a", "a:1"))
		q := s.redis.Quorum("client")
		conn := s.clientOn(q, "mandate:///orders", electorgrpc.Config{})
		wantCall(t, conn, "a")
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if why := wantUnavailable(t, conn); !strings.Contains(why, "who leads the election orders is not known any more") {
			t.Error(why)
		}
	})
}

// What a closed client left behind would follow the election for as long as the Quorum is open.
func TestCloseEndsAllThatFollows(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a := s.start("a", "a:1")
		s.redis.Lead(a)
		q := s.redis.Quorum("client") // stays open
		f := s.resolver(q)
		time.Sleep(time.Second)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if got := f.last(); f.count() != 2 || !strings.Contains(got, "no candidate leads the election orders") {
			t.Errorf("after %d states: %q", f.count(), got)
		}
		f.ResolveNow(resolver.ResolveNowOptions{})
		f.Close()
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("electorgrpc.(*follower)")) {
			t.Errorf("after Close:\n%s", stacks)
		}
		var wg sync.WaitGroup
		for range 8 { // gRPC does neither after Close; other users might
			wg.Go(f.Close)
			wg.Go(func() { f.ResolveNow(resolver.ResolveNowOptions{}) })
		}
		wg.Wait()
		states := f.count()
		s.redis.Lead(a)
		time.Sleep(time.Minute)
		if f.count() != states {
			t.Errorf("a closed client was given %q", f.last())
		}
	})
}
