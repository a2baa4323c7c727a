package shard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// slots are so many that each number of shards in these tests divides it: a slot stands for
// the keys that stay together through all growths.
const slots = 72

// keyLedger is who works for the keys, whatever the number of shards is. It fails the test when
// two do, or when the tokens of a key go backwards.
type keyLedger struct {
	t  *testing.T
	mu sync.Mutex
	// by slot
	owner  [slots]*shard.Term
	who    [slots]string
	token  [slots]uint64
	vacant [slots]time.Time
	gap    time.Duration // the longest time between two owners of a slot
}

func (l *keyLedger) begin(id string, term *shard.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !term.Valid() {
		return // its context has ended
	}
	for s := term.Shard; s < slots; s += term.Shards {
		if other := l.owner[s]; other != nil && other.Valid() {
			l.t.Errorf("slot %d: %s owns %d of %d beside %s, which owns %d of %d", s, id, term.Shard, term.Shards, l.who[s], other.Shard, other.Shards)
		}
		if term.Token() < l.token[s] || term.Token() == l.token[s] && l.who[s] != id {
			l.t.Errorf("slot %d: token %d of %d of %d after %d", s, term.Token(), term.Shard, term.Shards, l.token[s])
		}
		l.owner[s], l.who[s], l.token[s] = term, id, term.Token()
		if at := l.vacant[s]; !at.IsZero() {
			l.gap = max(l.gap, time.Since(at))
		}
		l.vacant[s] = time.Time{}
	}
}

func (l *keyLedger) end(term *shard.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := term.Shard; s < slots; s += term.Shards {
		if l.owner[s] == term {
			l.owner[s], l.vacant[s] = nil, time.Now()
		}
	}
}

// even reports whether all is owned as so many shards, by these members, as evenly as can be.
func (l *keyLedger) even(shards int, ids ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := map[string]int{}
	for s, t := range l.owner {
		if t == nil || t.Shards != shards || !t.Valid() {
			return false
		}
		if t.Shard == s {
			count[l.who[s]]++
		}
	}
	least, most, sum := shards, 0, 0
	for _, id := range ids {
		least, most, sum = min(least, count[id]), max(most, count[id]), sum+count[id]
	}
	return sum == shards && most-least <= 1
}

// growing is a group whose members work for slots.
type growing struct {
	*group

	keys keyLedger
	slow func(term *shard.Term) time.Duration // to stop
}

func newGrowing(t *testing.T, c *testcluster.Cluster) *growing {
	return &growing{group: newGroup(t, c, 0), keys: keyLedger{t: t}, slow: func(*shard.Term) time.Duration { return 0 }}
}

func (g *growing) join(id string, shards int) *member {
	g.t.Helper()
	m, err := shard.New(g.c.Quorum(id), shard.Config{Group: "orders", Shards: shards, ID: id, Lease: lease, Logger: g.log.Logger()})
	if err != nil {
		g.t.Fatal(err)
	}
	return g.run(m, func(ctx context.Context, term *shard.Term) error {
		g.keys.begin(id, term)
		defer g.keys.end(term)
		<-ctx.Done()
		time.Sleep(g.slow(term))
		return nil
	})
}

func (g *growing) evenly(within time.Duration, shards int, ids ...string) {
	g.t.Helper()
	g.eventually(within, fmt.Sprint("even as ", shards, " shards"), func() bool { return g.keys.even(shards, ids...) })
}

// A rolling deploy with three times as many shards: the old members and the new share the shards
// that there are, and the group grows when the last old one has left. No key has two owners, or
// none for longer than a planned move takes, and its tokens stay in order.
func TestGrowth(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGrowing(t, c)
		a, b := g.join("a", 8), g.join("b", 8)
		g.evenly(2*time.Second, 8, "a", "b")
		time.Sleep(lease)
		x := g.join("x", 24)
		g.evenly(2*time.Second, 8, "a", "b", "x")
		a.stop()
		g.evenly(2*time.Second, 8, "b", "x")
		y := g.join("y", 24)
		g.evenly(2*time.Second, 8, "b", "x", "y")
		time.Sleep(3 * lease)
		if !g.keys.even(8, "b", "x", "y") {
			t.Fatal("the group has grown while an old member lives")
		}
		b.stop()
		g.evenly(2*time.Second, 8, "x", "y")
		if x.Shards() != 8 || x.ShardOf("k") != shard.Of("k", 8) {
			t.Errorf("before the growth x has %d shards", x.Shards())
		}
		g.evenly(2*lease, 24, "x", "y")
		if g.keys.gap > 150*time.Millisecond {
			t.Errorf("keys were without an owner for %v", g.keys.gap)
		}
		for s := 8; s < 24; s++ { // what prepared the growth is no term of anybody
			el, err := g.c.Quorum("x").Election(shard.ElectionOf("orders", s))
			if err != nil {
				t.Fatal(err)
			}
			if terms, err := el.History(t.Context(), 100); err != nil || len(terms) != 1 {
				t.Errorf("shard %d: %+v, %v", s, terms, err)
			}
		}
		t.Logf("the longest time without an owner: %v", g.keys.gap)
		g.eventually(lease, "both know", func() bool {
			o, ok := y.OwnerOf("k")
			return x.Shards() == 24 && y.Shards() == 24 && ok && o.ID == g.keys.who[shard.Of("k", 24)]
		})
		g.join("z", 24)
		g.evenly(2*time.Second, 24, "x", "y", "z")

		// Once more, after a restart that left none of them.
		x.stop()
		y.stop()
		g.join("w", 72)
		g.evenly(4*time.Second, 24, "z", "w")
		time.Sleep(3 * lease)
		g.evenly(time.Second, 24, "z", "w")
	})
}

// A group that has grown grows again.
func TestGrowthTwice(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGrowing(t, c)
		a := g.join("a", 4)
		g.evenly(2*time.Second, 4, "a")
		b := g.join("b", 8)
		a.stop()
		g.evenly(2*lease, 8, "b")
		g.join("c", 24)
		b.stop()
		g.evenly(3*lease, 24, "c")
	})
}

// A member that can't be one of the group is refused, with what to do.
func TestGrowthRefused(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGrowing(t, c)
		g.join("a", 8)
		g.evenly(2*time.Second, 8, "a")
		for _, c := range []struct {
			shards int
			want   string
		}{
			{12, "this one 12 shards and a lease of 10s: while it runs a group grows to a multiple of its shards (16, 24, ...), when all members have that number"},
			{4, "this one 4 shards and a lease of 10s: it has grown, or is growing, and can't shrink while it runs: set 8 here, too"},
		} {
			err := g.join("other", c.shards).ended(t, 2*time.Second)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run of a member with %d shards: %v", c.shards, err)
			}
		}
		if !g.keys.even(8, "a") {
			t.Error("the group has changed")
		}
	})
}

// The work of one shard takes long to stop as the group grows: the new shards that are parts of it
// wait, and no others.
func TestGrowthWaitsForTheWork(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGrowing(t, c)
		g.slow = func(term *shard.Term) time.Duration {
			if term.Shards == 8 && term.Shard == 3 {
				return 4 * time.Second
			}
			return 0
		}
		a := g.join("a", 8)
		g.evenly(2*time.Second, 8, "a")
		x := g.join("x", 24)
		g.join("y", 24)
		g.evenly(lease, 8, "a", "x", "y")
		if st, err := shard.Read(t.Context(), c.Quorum("reader"), "orders"); err != nil || st.Shards != 8 || st.Growth == nil ||
			st.Growth.To != 24 || st.Growth.From != 0 || !slices.Equal(st.Growth.Waiting, []string{"a"}) ||
			st.Growing() != "to grow from 8 to 24 shards, when all members are configured for that: not yet a" {
			t.Errorf("while an old member lives: %+v, %v", st.Growth, err)
		}
		a.stop()
		for range 2 * lease / time.Second { // what one node has, because anyone wrote it there, counts for nothing
			time.Sleep(time.Second)
			c.Nodes[0].Server().HSet("mandate:{orders}:cuts", "3", "1")
			if x.Shards() == 24 {
				break
			}
		}
		g.eventually(lease/4+time.Second, "all but one shard are cut", func() bool {
			g.keys.mu.Lock()
			defer g.keys.mu.Unlock()
			n := 0
			for s, t := range g.keys.owner {
				if t != nil && t.Shards == 24 {
					n++
				} else if s%8 != 3 {
					return false
				}
			}
			return n == slots*7/8
		})
		time.Sleep(100 * time.Millisecond) // the owners report it
		st, err := shard.Read(t.Context(), c.Quorum("reader"), "orders")
		if err != nil || st.Shards != 24 || st.Growth == nil || st.Growth.From != 8 || !slices.Equal(st.Growth.Uncut, []int{3}) ||
			!strings.HasPrefix(st.Growing(), "growing from 8 to 24 shards, 7 of 8 cut: not yet 3 (") {
			t.Errorf("while one shard is not cut: %+v, %v", st.Growth, err)
		}
		if len(st.Unowned) != 2 || st.Unowned[0].Shard != 11 || !strings.Contains(st.Unowned[0].Why, "shard 3 of 8, of which it is a part, is not cut yet") {
			t.Errorf("unowned: %+v", st.Unowned)
		}
		g.evenly(5*time.Second, 24, "x", "y")
		time.Sleep(lease / 2)
		if st, err := shard.Read(t.Context(), c.Quorum("reader"), "orders"); err != nil || st.Shards != 24 || st.Growth != nil || len(st.Unowned) > 0 {
			t.Errorf("after the growth: %+v, %v", st, err)
		}
	})
}

// The tokens of a shard are ahead of all clocks, as after a step back of these: the new shards that
// are parts of it have greater ones all the same.
func TestGrowthKeepsTokensInOrder(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGrowing(t, c)
		a := g.join("a", 8)
		g.evenly(2*time.Second, 8, "a")
		for _, n := range c.Nodes {
			for s := range 8 {
				ahead := time.Now().Add(time.Duration(20+s) * time.Minute).UnixMilli()
				if err := n.Server().Set(fmt.Sprintf("mandate:{orders/%d}:fence", s), strconv.FormatInt(ahead, 10)); err != nil {
					t.Fatal(err)
				}
			}
		}
		g.join("x", 24)
		a.stop()
		g.evenly(2*lease, 24, "x")
		x := g.keys.token
		g.join("y", 24)
		g.evenly(2*time.Second, 24, "x", "y")
		if ahead := uint64(time.Now().Add(15 * time.Minute).UnixMilli()); x[0] < ahead {
			t.Errorf("the tokens were not ahead: %d, the clock is %d", x[0], ahead)
		}
	})
}

// A growth survives what a group survives: members and assigners that die, lines that are cut,
// nodes that lose their data. Never two owners of a key, and in the end all are owned.
func TestGrowthWithFaults(t *testing.T) {
	seeds := 6
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 7))
				g := newGrowing(t, c)
				g.slow = func(term *shard.Term) time.Duration {
					return time.Duration(term.Token()+uint64(seed*term.Shard)*331) % 2000 * time.Millisecond
				}
				a := g.join("a", 8)
				g.evenly(2*time.Second, 8, "a")
				ids := []string{"v", "w", "x", "y", "z"}
				for _, id := range ids {
					g.join(id, 24)
				}
				if seed%3 == 0 {
					c.Each(testredis.Cut, "a") // it lives on, and comes back later
				} else {
					a.stop()
				}
				time.Sleep(lease + lease/2 + time.Duration(rnd.Int64N(int64(lease))))
				cut := map[string]bool{}
				for range 12 {
					node := c.Nodes[rnd.IntN(3)]
					switch id := ids[rnd.IntN(len(ids))]; rnd.IntN(4) {
					case 0:
						if len(cut) < 3 {
							c.Each(testredis.Cut, id)
							cut[id] = true
						}
					case 1:
						node.Server().FlushAll()
					default:
						c.Each(testredis.Fault{}, id)
						delete(cut, id)
					}
					time.Sleep(time.Duration(rnd.Int64N(int64(lease / 4))))
				}
				for _, id := range append(ids, "a") {
					c.Each(testredis.Fault{}, id)
				}
				g.evenly(6*lease, 24, ids...)
				for _, id := range ids[:4] {
					g.c.Each(testredis.Cut, id)
				}
				g.evenly(3*lease, 24, "z")
			})
		})
	}
}
