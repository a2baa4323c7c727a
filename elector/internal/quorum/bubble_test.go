package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

// cluster is the nodes of package testredis, and the voters before them. Everything here speaks to the
// Voter itself: a mistake in a script shows at its first step, and no second
// mechanism of the machine above can hide it.
type cluster struct {
	*testredis.Set
	t     *testing.T
	redis []*miniredis.Miniredis
	own   []*redis.Client // the test's, to run a script as a late request would
	keys  protocol.Keys
}

const testLease = 10 * time.Second

// bubble runs f before n nodes in a bubble of its own.
func bubble(t *testing.T, n int, f func(t *testing.T, p *cluster)) {
	t.Helper()
	testredis.Bubble(t, n, func(t *testing.T, s *testredis.Set) {
		p := &cluster{Set: s, t: t, keys: protocol.KeysOf("mandate", "orders")}
		for i, n := range s.Nodes {
			n.Wire = 0 // what takes time is said
			c := s.Client("test", i)
			p.redis, p.own = append(p.redis, n.Server()), append(p.own, c)
			t.Cleanup(func() { c.Close() })
		}
		f(t, p)
		time.Sleep(2 * testLease) // what was left in the background ends by its own bounds
	})
}

// sub runs f before n nodes in a bubble of a subtest.
func sub(t *testing.T, name string, n int, f func(t *testing.T, p *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, n, f) })
}

// testVoter is one voter, with lines of its own.
type testVoter struct {
	*Voter
	t    *testing.T
	line func(node int, f testredis.Fault)

	mu     sync.Mutex
	failed []error // how requests failed
}

// dialing is a line on which a connection takes so long to make.
func dialing(d time.Duration) testredis.Fault {
	return testredis.Fault{Far: true, Delay: time.Millisecond, Handshakes: int(d/(2*time.Millisecond)) - 1}
}

// voter comes with connections of its own.
func (p *cluster) voter(id string, change ...func(*redis.Options)) *testVoter {
	p.t.Helper()
	b := &testVoter{t: p.t, line: func(node int, f testredis.Fault) { p.Nodes[node].Set(f, id) }}
	var clients []redis.UniversalClient
	for i := range p.Nodes {
		clients = append(clients, p.Client(id, i, change...))
	}
	ns, err := nodes.Open(clients)
	must(p.t, err)
	b.Voter = NewVoter(ns, VoterConfig{
		Keys: p.keys, Candidate: id, Incarnation: "inc" + id, Lease: testLease, CallTimeout: testLease / 5,
		RequestEnded: func(_ int, _ time.Duration, err error) {
			if err != nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.failed = append(b.failed, err)
			}
		},
	})
	p.t.Cleanup(func() {
		b.WaitIdle(time.Hour)
		ns.Close()
		for _, c := range clients {
			c.Close()
		}
	})
	return b
}

// renew sends a renewal, and takes the answers until it is over. Nothing is sent after that time.
func (v *Voter) renew(left time.Duration, token uint64, heir protocol.Heir, fit func() bool) Tally {
	until := time.Now().Add(left)
	v.drain()
	v.Renew(until, token, heir, func() bool { return time.Now().Before(until) && fit() })
	for {
		if t, over := v.Count(<-v.Answers()); over {
			return t
		}
	}
}

// drain takes the answers that came since.
func (v *Voter) drain() {
	for {
		select {
		case a := <-v.Answers():
			v.Count(a)
		default:
			return
		}
	}
}

// troubles are the failed requests since the last call.
func (b *testVoter) troubles() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	failed := b.failed
	b.failed = nil
	return failed
}

// counters gives the nodes their counters, so that none is new.
func (p *cluster) counters(values ...string) {
	for i, m := range p.redis {
		_ = m.Set(p.keys.Fence, values[min(i, len(values)-1)])
	}
}

// Claim claims as a candidate does.
func (b *testVoter) Claim(ctx context.Context, clock uint64, markers []string, echo string) (token uint64, t Tally) {
	return b.Voter.Claim(ctx, func(Tally) uint64 { return 1 }, clock, markers, echo)
}

// wins claims and wants to win.
func (b *testVoter) wins(hint uint64) uint64 {
	b.t.Helper()
	token, tally := b.Claim(b.t.Context(), hint, nil, "")
	if token == 0 {
		b.t.Fatalf("%s did not win: %+v", b.cfg.Candidate, tally.Answers)
	}
	return token
}

// loses claims and wants to lose.
func (b *testVoter) loses() Tally {
	b.t.Helper()
	token, tally := b.Claim(b.t.Context(), 1, nil, "")
	if token != 0 {
		b.t.Fatalf("%s won token %d: %+v", b.cfg.Candidate, token, tally.Answers)
	}
	return tally
}

func (p *cluster) get(node int, key string) string {
	v, err := p.redis[node].Get(key)
	if err != nil && !errors.Is(err, miniredis.ErrKeyNotFound) {
		p.t.Fatal(err)
	}
	return v
}

// locks is how many nodes hold a lock.
func (p *cluster) locks() (n int) {
	for i := range p.redis {
		if p.get(i, p.keys.Lock) != "" {
			n++
		}
	}
	return n
}

// run executes a script on one node as a request that was long under way.
func (p *cluster) run(node int, s protocol.ElectionScript, r protocol.Request) protocol.Answer {
	r.Keys, r.Lease = &p.keys, testLease.Milliseconds()
	v, err := p.own[node].Do(p.t.Context(), s.Command("eval", s.Source, &r)...).Result()
	return protocol.ParseReply(v, err, 0, 1)
}

// lateRenewal is what a late renewal of b's newest term would say.
func (p *cluster) lateRenewal(node int, b *testVoter, token uint64) protocol.Answer {
	return p.run(node, protocol.RenewScript, protocol.Request{
		Value: b.lock.String(), Incarnation: b.cfg.Incarnation, Seq: b.seq, Token: token, Shown: token, Identity: protocol.NewIdentity(),
	})
}

// onScript calls f before a node runs a script.
func (p *cluster) onScript(node int, s protocol.ElectionScript, f func()) {
	p.redis[node].Server().SetPreHook(func(_ *server.Peer, cmd string, args ...string) bool {
		if cmd == "EVALSHA" && slices.Contains(args, s.Hash()) {
			f()
		}
		return false
	})
}

// refuse makes a node answer a command with an error, also inside of a script.
func (p *cluster) refuse(node int, command, msg string) {
	p.redis[node].Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == command {
			c.WriteError(msg)
		}
		return cmd == command
	})
}

// TestMain keeps go-redis from printing every refused connection.
func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

// process is the voters of several elections on one set of nodes, as one process has them.
type process struct {
	t       *testing.T
	cluster *cluster
	first   sync.WaitGroup // the renewal of the first election
	away    atomic.Bool    // that is on its way
	voters  []*testVoter
	tokens  []uint64

	mu    sync.Mutex
	calls []int // for how many elections each renewal, release or claim was
}

const trip = 10 * time.Millisecond

// watch counts the calls to a node, and has f look at each before it runs; true: f has answered it.
func (all *process) watch(node int, f func([]testredis.Request, *server.Peer) bool) {
	all.cluster.redis[node].Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		calls := testredis.Requests(cmd, args...)
		if len(calls) == 0 {
			return false
		}
		if node == 0 {
			all.mu.Lock()
			all.calls = append(all.calls, len(calls))
			all.mu.Unlock()
		}
		return f != nil && f(calls, c)
	})
}

// took are the calls to the first node since the last take, and for how many elections they were. None is for too many.
func (all *process) took() (calls []int, sum int) {
	all.t.Helper()
	all.mu.Lock()
	defer all.mu.Unlock()
	calls, all.calls = all.calls, nil
	for _, c := range calls {
		if sum += c; c > nodes.MaxBatch {
			all.t.Errorf("a call for %d elections", c)
		}
	}
	return calls, sum
}

// renew has all elections renew at once, but one that is on its way.
func (all *process) renew(left time.Duration, fit func(i int) bool) []Tally {
	tallies := make([]Tally, len(all.voters))
	away := all.away.Load()
	if !away {
		all.first.Wait()
	}
	var wg sync.WaitGroup
	for i, v := range all.voters {
		if i == 0 && away {
			continue
		}
		wg.Go(func() {
			tallies[i] = v.renew(left, all.tokens[i], protocol.Heir{}, func() bool { return fit == nil || fit(i) })
		})
	}
	wg.Wait()
	return tallies
}

// renewed fails the test unless all but those elections were renewed.
func (all *process) renewed(tallies []Tally, but ...int) {
	all.t.Helper()
	for i, tally := range tallies {
		if tally.nodes == nil {
			continue
		}
		want := true
		for _, j := range but {
			want = want && i != j
		}
		if got := tally.Majority(protocol.Renewed); got != want {
			all.t.Errorf("election %d: renewed: %v: %+v", i, got, tally.Answers)
		}
	}
}

// busy has an election of its own on the way to the first node, so that the others wait and travel together behind it.
func (all *process) busy() {
	all.first.Wait()
	all.away.Store(true)
	all.first.Go(func() {
		all.voters[0].renew(testLease, all.tokens[0], protocol.Heir{}, fit)
		all.away.Store(false)
	})
	time.Sleep(trip / 2)
}

// fit is a leader that may renew.
func fit() bool { return true }
