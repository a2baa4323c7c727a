package shard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

var must = servertest.Must

// Every process of every version must come to the same shard.
func TestOfIsStable(t *testing.T) {
	for key, want := range map[string]int{"": 129, "a": 604, "customer-17": 658, "customer-18": 728, "日本": 148} {
		if got := shard.Of(key, 1024); got != want {
			t.Errorf("Of(%q, 1024) is %d, it was %d", key, got, want)
		}
	}
}

// A member that can release nothing says so: its shards were without an owner until their
// leases' end, which whoever restarts it must be able to see.
func TestShardsThatWereNotReleased(t *testing.T) {
	grouped(t, 3, 4, func(t *testing.T, c *testcluster.Cluster, g *group) {
		a := g.join("a")
		g.eventually(2*time.Second, "all are a's", func() bool { return g.l.even(4, "a") })
		c.Each(testredis.Cut, "a")
		a.stop()
		err := a.ended(t, 3*lease)
		if !errors.Is(err, elector.ErrNotReleased) || !strings.Contains(err.Error(), "4 shards were not released") {
			t.Errorf("%v", err)
		}
		c.Heal()

		b := g.join("b")
		g.eventually(2*lease, "all are b's", func() bool { return g.l.even(4, "b") })
		b.stop()
		if err := b.ended(t, 3*lease); err != nil {
			t.Errorf("after a release: %v", err)
		}
	})
}

// Check fails for what keeps a member from being given shards, and for nothing else.
func TestCheck(t *testing.T) {
	grouped(t, 3, 4, func(t *testing.T, c *testcluster.Cluster, g *group) {
		var broken atomic.Bool
		probe := health.Func(func(context.Context) error {
			if broken.Load() {
				return errors.New("disk full")
			}
			return nil
		})
		m := g.member("a", func(cfg *shard.Config) { cfg.Probe = probe })
		check := func(when, want string) {
			t.Helper()
			if err := m.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", when, err, want)
			}
		}
		check("before Run", "not running")
		r := g.run(m, func(ctx context.Context, term *shard.Term) error {
			if term.Shard == 3 {
				return errors.New("broken")
			}
			<-ctx.Done()
			return nil
		})
		time.Sleep(lease)
		check("well, with a shard that fails", "")
		if m.Term(0) == nil || m.Term(0).Shard != 0 || m.Term(3) != nil || m.Term(-1) != nil {
			t.Errorf("terms: %v, %v", m.Term(0), m.Term(3))
		}
		broken.Store(true)
		time.Sleep(2 * lease)
		check("unhealthy", "disk full")
		broken.Store(false)
		time.Sleep(3 * lease)
		check("healthy again", "")
		refuse := func(commands ...string) {
			for _, n := range c.Nodes {
				n.Deny(commands...)
			}
			time.Sleep(2 * lease)
		}
		refuse("eval", "evalsha")
		check("refused", "'evalsha' command (the Redis user default lacks a right")
		roll, err := testcluster.ElectionOf(c.Quorum("operator"), "orders#assigner").Candidates(t.Context())
		if err != nil || len(roll) != 1 || !strings.Contains(roll[0].Detail, "'evalsha'") {
			t.Errorf("an operator is not told what the member is refused: %+v, %v", roll, err)
		}
		refuse()
		check("accepted again", "")
		c.Each(testredis.Cut, "a")
		time.Sleep(lease)
		check("cut off", "no majority of the Redis nodes answers")
		if m.Term(0) != nil {
			t.Error("it owns a shard, and is cut off")
		}
		r.stop()
		time.Sleep(2 * lease)
		check("after Run", "not running")
	})
}

const lease = 10 * time.Second

// ledger is what all members of a test own, and fails it when a shard has two owners or
// its tokens go backwards.
type ledger struct {
	t  testing.TB
	mu sync.Mutex
	// by shard
	owner  map[int]string
	token  map[int]uint64
	terms  map[int]int
	vacant map[int]time.Time
	gap    time.Duration // the longest time between two owners
}

func newLedger(t testing.TB) *ledger {
	return &ledger{t: t, owner: map[int]string{}, token: map[int]uint64{}, terms: map[int]int{}, vacant: map[int]time.Time{}}
}

func (l *ledger) begin(id string, term *shard.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := term.Shard
	if other := l.owner[s]; other != "" {
		l.t.Errorf("shard %d: %s owns it beside %s", s, id, other)
	}
	if term.Token() <= l.token[s] {
		l.t.Errorf("shard %d: token %d after %d", s, term.Token(), l.token[s])
	}
	l.owner[s], l.token[s] = id, term.Token()
	l.terms[s]++
	if at, ok := l.vacant[s]; ok {
		l.gap = max(l.gap, time.Since(at))
		delete(l.vacant, s)
	}
}

func (l *ledger) end(id string, s int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner[s] == id {
		l.owner[s] = ""
		l.vacant[s] = time.Now()
	}
}

// work records that the member owns the shard.
func (l *ledger) work(id string) shard.Work {
	return func(ctx context.Context, term *shard.Term) error {
		l.begin(id, term)
		defer l.end(id, term.Shard)
		<-ctx.Done()
		return nil
	}
}

func (l *ledger) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for _, id := range l.owner {
		if id != "" {
			all[id]++
		}
	}
	return all
}

// moved is how many terms there were beyond the first of each shard.
func (l *ledger) moved() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, t := range l.terms {
		n += t - 1
	}
	return n
}

// even reports whether all shards are owned, by these members, as evenly as can be.
func (l *ledger) even(shards int, ids ...string) bool {
	c := l.counts()
	sum, least, most := 0, shards, 0
	for _, id := range ids {
		sum, least, most = sum+c[id], min(least, c[id]), max(most, c[id])
	}
	return sum == shards && most-least <= 1
}

type member struct {
	*shard.Member
	stop context.CancelFunc
	done chan error
}

type group struct {
	t      *testing.T
	c      *testcluster.Cluster
	l      *ledger
	shards int
	log    testcluster.Logbook
}

func newGroup(t *testing.T, c *testcluster.Cluster, shards int) *group {
	g := &group{t: t, c: c, l: newLedger(t), shards: shards}
	t.Cleanup(func() {
		if lines := g.log.Lines("leaving a shard", "=<nil>"); len(lines) > 0 {
			t.Errorf("a shard is left for no reason: %q", lines)
		}
		if t.Failed() {
			lines := g.log.Lines()
			t.Logf("the last lines of the log:\n%s", strings.Join(lines[max(0, len(lines)-100):], ""))
		}
	})
	return g
}

// grouped runs f with so many nodes and a group of so many shards in a bubble of its own.
func grouped(t *testing.T, nodes, shards int, f func(*testing.T, *testcluster.Cluster, *group)) {
	t.Helper()
	testcluster.Bubble(t, nodes, func(t *testing.T, c *testcluster.Cluster) { f(t, c, newGroup(t, c, shards)) })
}

// join starts a member on a quorum of its own.
func (g *group) join(id string, change ...func(*shard.Config)) *member {
	g.t.Helper()
	return g.run(g.member(id, change...), g.l.work(id))
}

// member makes a member on a quorum of its own.
func (g *group) member(id string, change ...func(*shard.Config)) *shard.Member {
	g.t.Helper()
	cfg := shard.Config{Group: "orders", Shards: g.shards, ID: id, Advertise: "http://" + id, Lease: lease, Logger: g.log.Logger()}
	for _, f := range change {
		f(&cfg)
	}
	m, err := shard.New(g.c.Quorum(id), cfg)
	must(g.t, err)
	return m
}

// joins starts these members, and waits until they own all shards evenly.
func (g *group) joins(ids ...string) (all []*member) {
	g.t.Helper()
	for _, id := range ids {
		all = append(all, g.join(id))
	}
	g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(g.shards, ids...) })
	return all
}

func (g *group) run(m *shard.Member, work shard.Work) *member {
	ctx, stop := context.WithCancel(context.Background())
	r := &member{Member: m, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- m.Run(ctx, work) }()
	g.t.Cleanup(func() {
		stop()
		if _, _, came := testcluster.Await(r.done, 5*lease); !came {
			g.t.Errorf("%s: Run did not end", m.ID())
		}
	})
	return r
}

func (m *member) ended(t *testing.T, within time.Duration) error {
	t.Helper()
	err, _, came := testcluster.Await(m.done, within)
	if !came {
		t.Fatalf("%s: Run did not end within %v", m.ID(), within)
	}
	m.done <- err
	return err
}

func (g *group) eventually(within time.Duration, what string, ok func() bool) {
	g.t.Helper()
	testcluster.Eventually(g.t, within, what, ok)
}

func TestStuckShard(t *testing.T) {
	grouped(t, 3, 12, func(t *testing.T, c *testcluster.Cluster, g *group) {
		broken := errors.New("tenant 5 can't be reached from here")
		a := g.run(g.member("a"), func(ctx context.Context, term *shard.Term) error {
			g.l.begin("a", term)
			defer g.l.end("a", term.Shard)
			if term.Shard < 6 {
				return broken
			}
			<-ctx.Done()
			return nil
		})
		g.join("b")
		g.eventually(2*lease, "all are owned, b has the six", func() bool {
			c := g.l.counts()
			return c["a"] == 6 && c["b"] == 6
		})
		for _, s := range a.Owned() {
			if s < 6 {
				t.Errorf("a owns %d", s)
			}
		}
		if lines := g.log.Lines("run ended"); len(lines) > 0 {
			t.Errorf("a shard's failure is logged as the end of Run: %q", lines)
		}
	})
}

func TestOwnerOf(t *testing.T) {
	grouped(t, 3, 16, func(t *testing.T, c *testcluster.Cluster, g *group) {
		members := g.joins("a", "b")
		time.Sleep(lease)
		for _, m := range members {
			for s := range 16 {
				o, ok := m.Owner(s)
				if want := g.l.owner[s]; !ok || o.ID != want || o.Advertise != "http://"+want {
					t.Errorf("%s has %d as owned by %+v, want %s", m.ID(), s, o, want)
				}
			}
			if o, ok := m.OwnerOf("customer-17"); !ok || o.ID != g.l.owner[m.ShardOf("customer-17")] {
				t.Errorf("the owner of a key: %+v", o)
			}
		}
	})
}

// A member that reaches a minority of the nodes alone can hold no lock: it counts as dead.
func TestMinority(t *testing.T) {
	grouped(t, 3, 12, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("a", "b")
		c.Nodes[0].Set(testredis.Cut, "b")
		c.Nodes[1].Set(testredis.Cut, "b")
		g.eventually(lease+time.Second/2, "a owns all", func() bool { return g.l.even(12, "a") })
		c.Heal()
		g.eventually(lease, "even again", func() bool { return g.l.even(12, "a", "b") })
	})
}

// What a group of many shards promises of time and of moves when members join and die.
func TestManyShardsMoveFew(t *testing.T) {
	const shards = 64
	grouped(t, 3, shards, func(t *testing.T, c *testcluster.Cluster, g *group) {
		ids := []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"}
		g.joins(ids...)
		time.Sleep(lease)

		m8 := g.join("m8")
		ids = append(ids, "m8")
		g.eventually(time.Second, "even after a join", func() bool { return g.l.even(shards, ids...) })
		if n := g.l.moved(); n != shards/9 {
			t.Errorf("%d shards moved, %d are enough", n, shards/9)
		}
		if owned := m8.Owned(); len(owned) != shards/9 {
			t.Errorf("m8 owns %v", owned)
		}
		if g.l.gap > 5*time.Millisecond {
			t.Errorf("a shard was without an owner for %v", g.l.gap)
		}

		// A member that is cut off from all nodes, and one that is killed, look the same to the others: its locks
		// lapse, and by then each shard has its next owner waiting. One of the two is the assigner.
		for _, dies := range []string{"m0", "m4"} {
			before := g.l.moved()
			owned := g.l.counts()[dies]
			c.Each(testredis.Cut, dies)
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == dies })
			g.eventually(lease+time.Second/2, "the others own all after the death of "+dies, func() bool { return g.l.even(shards, ids...) })
			if n := g.l.moved() - before; n != owned {
				t.Errorf("%d shards moved, %d were those of the dead member", n, owned)
			}
		}
	})
}

// A rolling restart of all members moves each shard at most twice, and leaves none without an owner for longer than any planned
// move does.
func TestRollingRestartOfAll(t *testing.T) {
	const shards = 32
	grouped(t, 3, shards, func(t *testing.T, c *testcluster.Cluster, g *group) {
		ids := []string{"m0", "m1", "m2", "m3"}
		for i, m := range g.joins(ids...) {
			m.stop()
			must(t, m.ended(t, 2*time.Second))
			ids[i] = "new-" + ids[i]
			g.join(ids[i])
			g.eventually(time.Second, "even again", func() bool { return g.l.even(shards, ids...) })
		}
		for s, n := range g.l.terms {
			if n > 3 {
				t.Errorf("shard %d has moved %d times", s, n-1)
			}
		}
		if g.l.gap > 5*time.Millisecond {
			t.Errorf("a shard was without an owner for %v", g.l.gap)
		}
	})
}
