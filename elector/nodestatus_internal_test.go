package elector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// bench is one node in a bubble, and what opens connections to it.
type bench struct {
	*miniredis.Miniredis

	keys protocol.Keys
	open func(change ...func(*redis.Options)) *nodes.Nodes
}

func onBench(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	testredis.Bubble(t, 1, func(t *testing.T, s *testredis.Set) {
		m := s.Nodes[0].Server()
		s.Nodes[0].Wire = 0
		f(t, &bench{m, protocol.KeysOf("mandate", "orders"), func(change ...func(*redis.Options)) *nodes.Nodes {
			c := s.Client("a", 0, change...)
			ns, err := nodes.Open([]redis.UniversalClient{c})
			servertest.Must(t, err)
			t.Cleanup(func() { ns.Close(); _ = c.Close() })
			return ns
		}})
	})
}

// The commands of a pipeline are not one step: of what is left of two leases the lower is shown.
func TestReadWhileTheLockChangesHands(t *testing.T) {
	t.Parallel()
	for cmd, left := range map[string]time.Duration{"PTTL": 9 * time.Second, "GET": 2 * time.Second, "MGET": 2 * time.Second} {
		onBench(t, func(t *testing.T, b *bench) {
			m, k := b.Miniredis, b.keys
			hold := func(value string, left time.Duration) {
				_ = m.Set(k.Lock, value)
				m.SetTTL(k.Lock, left)
			}
			hold("a/A/1 n=1 lease=10000 token=7", 2*time.Second)
			if cmd == "MGET" { // which shows all of a node that knows the election
				_, _ = m.Set(k.Fence, "7"), m.Set(k.ID, "word")
			}
			ns := b.open()
			b.Server().SetPreHook(func(_ *server.Peer, got string, args ...string) bool {
				if got == cmd && args[0] == k.Lock {
					hold("b/B/1 n=1 lease=10000 token=8", 9*time.Second)
				}
				return false
			})
			v := readNodes(t.Context(), ns, &k, time.Second, nil)[0]
			if v.Err != nil || v.Holder != "b" || v.LeaseLeft != left {
				t.Errorf("at %s: read %+v", cmd, v)
			}
		})
	}
}

// What is no key of an election is named, as the scripts do it.
func TestReadNamesAForeignKey(t *testing.T) {
	t.Parallel()
	onBench(t, func(t *testing.T, b *bench) {
		m, k := b.Miniredis, b.keys
		ns := b.open()
		for _, tc := range []struct {
			spoil func()
			says  string
		}{
			{func() { _, _ = m.Push(k.Pause, "x") }, "MANDATE key " + k.Pause + " holds another type than a string"},
			{func() { m.Del(k.ID); _, _ = m.Push(k.ID, "x") }, "MANDATE key " + k.ID + " holds another type than a string"},
			{func() { _ = m.Set(k.Fence, "x") }, "MANDATE key " + k.Fence + " holds no number"},
		} {
			m.FlushAll()
			for _, key := range []string{k.Lock, k.Fence, k.ID} { // of a node that knows the election
				_ = m.Set(key, "7")
			}
			tc.spoil()
			v := readNodes(t.Context(), ns, &k, time.Second, nil)[0]
			if v.Err == nil || !strings.Contains(v.Err.Error(), tc.says) || !rediserr.Permanent(v.Err) {
				t.Errorf("says %v, want %q", v.Err, tc.says)
			}
		}
	})
}

// What a node holds is shown the same whether MGET shows it, or GET where the node refuses MGET or answers it as no Redis does.
func TestReadShowsTheSameWithoutMGET(t *testing.T) {
	t.Parallel()
	onBench(t, func(t *testing.T, b *bench) {
		m, k := b.Miniredis, b.keys
		ns, mget := b.open(), 0
		answers := []func(p *server.Peer){
			nil, // its own
			func(p *server.Peer) { p.WriteError("NOPERM this user has no permissions to run the 'mget' command") },
			func(p *server.Peer) { p.WriteLen(0) },
			func(p *server.Peer) { p.WriteStrings([]string{"x", "7", "word"}) },
		}
		m.Server().SetPreHook(func(p *server.Peer, cmd string, _ ...string) bool {
			if cmd != "MGET" || answers[mget] == nil {
				return false
			}
			answers[mget](p)
			return true
		})
		for name, change := range map[string]func(){
			"led":                   func() {},
			"no leader":             func() { m.Del(k.Lock) },
			"abstains":              func() { _ = m.Set(k.New, "a"); m.SetTTL(k.New, time.Second) },
			"paused":                func() { _ = m.Set(k.Pause, "by me"); m.SetTTL(k.Pause, time.Minute) },
			"no identity":           func() { m.Del(k.ID) },
			"no token":              func() { m.Del(k.Fence) },
			"another type of lock":  func() { m.Del(k.Lock); _, _ = m.Push(k.Lock, "x") },
			"another type of pause": func() { _, _ = m.Push(k.Pause, "x") },
			"a foreign lock":        func() { _ = m.Set(k.Lock, "") },
		} {
			m.FlushAll()
			_ = m.Set(k.Lock, "a/A/1 n=1 lease=10000 token=7")
			m.SetTTL(k.Lock, 9*time.Second)
			_, _ = m.Set(k.Fence, "7"), m.Set(k.ID, "word")
			change()
			var shown [4]string
			for mget = range answers {
				st := readNodes(t.Context(), ns, &k, time.Second, nil)[0]
				st.RTT, st.pastErr = 0, nil
				if shown[mget] = fmt.Sprintf("%+v", st); shown[mget] != shown[0] {
					t.Errorf("%s: %s, with answer %d to MGET %s", name, shown[0], mget, shown[mget])
				}
			}
		}
	})
}

// The names on several nodes are one list, and those of a foreign hand are left out.
func TestListOfElections(t *testing.T) {
	var clients []redis.UniversalClient
	for i := range 3 {
		m := miniredis.RunT(t)
		for name, last := range map[string]float64{"b": 1, "a": 1, "n o": 7, "": 8, "later" + strings.Repeat("x", i): float64(i + 2)} {
			_, _ = m.ZAdd("team:elections", last, name)
		}
		_, _ = m.ZAdd("mandate:elections", 9, "elsewhere")
		c := redis.NewClient(&redis.Options{Addr: m.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	ns, err := nodes.Open(clients)
	servertest.Must(t, err)
	t.Cleanup(ns.Close)
	all := []string{"laterxx", "laterx", "later", "a", "b"}
	for most, complete := range map[int]bool{10: true, 5: true, 4: false} {
		names, errs := listed(t.Context(), ns, "team", most)
		if !slices.Equal(names, all[:min(most, len(all))]) {
			t.Errorf("of at most %d: %q", most, names)
		}
		for _, err := range errs {
			if (err == nil) != complete {
				t.Errorf("of at most %d: %v", most, err)
			}
		}
	}
}
