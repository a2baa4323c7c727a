package elector_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

func TestHungMinorityNodeCostsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Each(fault{Delay: 200 * time.Microsecond})
		c.Seed()
		c.Hang(2)
		leader, term := leading(c, "c0")
		all := []*candidate{leader}
		for i := range 3 {
			all = append(all, c.Start(fmt.Sprintf("c%d", i+1)))
		}
		for len(all) > 1 {
			time.Sleep(3 * shortLease) // renewals
			continues(t, term)
			began := time.Now()
			leader.Stop()
			all = others(all, leader)
			next, after := first(t, time.Second, all...)
			gap := time.Since(began)
			if gap > 50*time.Millisecond {
				t.Errorf("handover among %d took %v", len(all), gap)
			}
			must(t, leader.Ended(time.Second))
			if took := time.Since(began); took > time.Second {
				t.Errorf("shutdown took %v", took)
			}
			newer(t, after, term)
			leader, term = next, after
		}
		if n := len(leader.Log.Lines("redis node is not responding")); n != 1 {
			t.Errorf("the hung node was reported %d times", n)
		}
	})
}

var brokenNodes = map[string]struct {
	hurt, repair func(*node)
	says         string
}{
	"refused":  {func(n *node) { n.Set(down) }, (*node).Heal, "connection refused"},
	"LOADING":  {func(n *node) { n.RefuseWith("LOADING Redis is loading the dataset in memory") }, func(n *node) { n.RefuseWith("") }, "LOADING"},
	"READONLY": {func(n *node) { n.RefuseWith("READONLY You can't write against a read only replica.") }, func(n *node) { n.RefuseWith("") }, "READONLY"},
	"foreign counter": {
		func(n *node) { _ = n.Server().Set(fenceKey, "twelve") }, func(n *node) { n.Server().Del(fenceKey) },
		"see what it holds with redis-cli TYPE mandate:{orders}:fence, and GET mandate:{orders}:fence if that is a string",
	},
	"counter at its limit": { // the node grants nothing any more
		func(n *node) { _ = n.Server().Set(fenceKey, "9007199254740990") }, func(n *node) { n.Server().Del(fenceKey) }, "2^53",
	},
	"NOAUTH": {
		func(n *node) { n.Server().RequireAuth("secret"); n.Reset("") },
		func(n *node) { n.Server().RequireAuth(""); n.Reset("") }, "give the password",
	},
}

func TestBrokenNode(t *testing.T) {
	for name, tc := range brokenNodes {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			tc.hurt(c.Nodes[2])
			a, term := leading(c, "a")
			time.Sleep(20 * shortLease)
			continues(t, term)
			title, other := "redis node answered with an error", "redis node is not responding"
			if name == "refused" {
				title, other = other, title
			}
			logged := a.Log.Lines(title, "127.0.0.1:7003", tc.says)
			if len(logged) != 1 || len(a.Log.Lines(title)) != 1 || len(a.Log.Lines(other)) != 0 {
				t.Errorf("want it logged once: %q", a.Log.Lines("WARN"))
			}
			tc.repair(c.Nodes[2])
			time.Sleep(2 * shortLease)
			if len(a.Log.Lines("responds again", "127.0.0.1:7003")) != 1 {
				t.Error("its return was not logged")
			}
			if c.Locks() != 3 || !term.Valid() {
				t.Errorf("%d locks, valid %v", c.Locks(), term.Valid())
			}
		})
	}
}

func TestNodeDownAtTheStart(t *testing.T) {
	for name, tc := range brokenNodes {
		if name == "NOAUTH" || strings.Contains(name, "counter") {
			continue // waiting would not cure it
		}
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			for _, nd := range c.Nodes {
				tc.hurt(nd)
			}
			a := c.Start("a")
			a.Quiet(30 * shortLease)
			if err := a.Check(); !errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Check: %v", err)
			}
			if lines := a.Log.Lines("cannot campaign", tc.says); len(lines) != 1 {
				t.Errorf("logged %d times", len(lines))
			}
			if lines := a.Log.Lines(""); len(lines) > 5+3+2*(1+3) { // two reminders of each
				t.Errorf("the log floods: %d lines", len(lines))
			}
			if _, err := a.Election().Leader(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
				t.Errorf("Leader: %v", err)
			}
			for _, nd := range c.Nodes {
				tc.repair(nd)
			}
			a.Elected(2 * shortLease)
			if err := a.Check(); err != nil {
				t.Errorf("Check: %v", err)
			}
			if len(a.Log.Lines("can campaign again")) != 1 {
				t.Error("its end was not logged")
			}
		})
	}
}

// The application holds every connection of its own client: ours are not among them.
func TestExhaustedPoolOfTheApplicationCostsNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		app := c.Client("app", 0)
		defer app.Close()
		app.Options().PoolSize = 1
		app = redis.NewClient(app.Options())
		defer app.Close()
		held := app.Conn()
		defer held.Close()
		must(t, held.Ping(t.Context()).Err())
		a := makeCandidate(t, quorumOf(t, app), "a").Begin(nil)
		term := a.Elected(time.Second)
		time.Sleep(10 * shortLease)
		continues(t, term)
		if lines := a.Log.Lines("WARN"); len(lines) > 0 {
			t.Errorf("%q", lines)
		}
	})
}

// Two votes of one server would make a majority that is none.
func TestSameServerUnderTwoNames(t *testing.T) {
	for _, nodes := range [][]int{{0, 0, 0}, {0, 0, 1}, {0, 1, 2, 2, 3}} {
		sub(t, fmt.Sprint(nodes), 4, func(t *testing.T, c *cluster) {
			var clients []redis.UniversalClient
			for i, nd := range nodes {
				cl := c.Client("a", nd)
				cl.Options().Addr = fmt.Sprintf("10.0.0.%d:6379", i+1)
				defer cl.Close()
				clients = append(clients, cl)
			}
			err := makeCandidate(t, quorumOf(t, clients...), "a").Begin(nil).Ended(3 * shortLease)
			if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "listed twice") || !strings.Contains(err.Error(), "10.0.0.") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The ways to change the nodes that docs/deploying.md describes, step by step.

// crew is the candidates of an election while they are replaced.
type crew struct {
	mu  sync.Mutex
	all []*candidate
}

func (cr *crew) now() []*candidate {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	return slices.Clone(cr.all)
}

// restart replaces one by its next life, with that list of nodes.
func (cr *crew) restart(c *cluster, old *candidate, nodes []int) {
	c.T.Helper()
	old.Shutdown()
	next := c.StartOn(old.ID(), nodes)
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.all[slices.Index(cr.all, old)] = next
}

// leaders are the candidates that lead now.
func leaders(all []*candidate) (who []string) {
	for _, x := range all {
		if x.IsLeader() {
			who = append(who, x.ID())
		}
	}
	return who
}

// ledFor is for how long, of d, none of the candidates led, and more than one.
func ledFor(d time.Duration, all ...*candidate) (none, both time.Duration) {
	for range d / time.Millisecond {
		time.Sleep(time.Millisecond)
		switch n := len(leaders(all)); {
		case n == 0:
			none += time.Millisecond
		case n > 1:
			both += time.Millisecond
		}
	}
	return none, both
}

// watchLeaders looks each so often who leads, until stop, which returns for how long no candidate did. Never two may.
func watchLeaders(t *testing.T, every time.Duration, all func() []*candidate) (stop func() time.Duration) {
	quit, total := make(chan struct{}), make(chan time.Duration)
	go func() {
		var without time.Duration
		for failed := false; ; {
			select {
			case <-quit:
				total <- without
				return
			case <-time.After(every):
			}
			who := leaders(all())
			if len(who) == 0 {
				without += every
			}
			if len(who) > 1 && !failed {
				failed = true
				t.Errorf("two valid terms: %v", who)
			}
		}
	}()
	return func() time.Duration { close(quit); return <-total }
}

// roll restarts all candidates, one after the other, the leader at the end or at the
// beginning, with another list of nodes.
func (cr *crew) roll(c *cluster, leaderLast bool, nodes ...int) {
	c.T.Helper()
	all := cr.now()
	lead := slices.IndexFunc(all, (*candidate).IsLeader)
	if leaderLast {
		all = append(append(all[:lead:lead], all[lead+1:]...), all[lead])
	} else {
		all[0], all[lead] = all[lead], all[0]
	}
	for _, old := range all {
		cr.restart(c, old, nodes)
		time.Sleep(time.Second)
	}
}

// A node of three has died or is taken out of service, and another one takes
// its place: empty, or with its data. It must be down before the first restart: then
// any majority of the old list and any of the new one share a node.
func TestReplacingANode(t *testing.T) {
	for _, withData := range []bool{false, true} {
		for _, leaderLast := range []bool{true, false} {
			sub(t, fmt.Sprintf("data=%v,leaderLast=%v", withData, leaderLast), 3, func(t *testing.T, c *cluster) {
				spare := c.NewNode("127.0.0.1:7099")
				list := []int{0, 1, 2}
				cr := &crew{all: []*candidate{c.StartOn("a", list), c.StartOn("b", list), c.StartOn("d", list)}}
				_, term := first(t, 3*shortLease, cr.all...)
				time.Sleep(3 * shortLease)
				stop := watchLeaders(t, time.Millisecond, cr.now)

				dead := c.Nodes[2]
				dead.Set(down)
				if withData {
					for _, key := range []string{lockKey, fenceKey, "mandate:{orders}:id"} {
						if v, err := dead.Server().Get(key); err == nil {
							_ = spare.Server().Set(key, v)
							if left := dead.Server().TTL(key); left > 0 {
								spare.Server().SetTTL(key, left)
							}
						}
					}
				}
				c.Nodes = append(c.Nodes, spare)
				time.Sleep(time.Second)
				list[2] = 3
				cr.roll(c, leaderLast, list...)
				time.Sleep(3 * shortLease)

				if without := stop(); without > 200*time.Millisecond {
					t.Errorf("no candidate led for %v", without)
				}
				all := cr.now()
				noneDiffers(t, all...)
				i := slices.IndexFunc(all, (*candidate).IsLeader)
				if i < 0 || all[i].Term().Token() <= term.Token() {
					t.Fatalf("the leader after all: %d", i)
				}
				c.Nodes[0].Set(down) // the new node votes: others may go
				time.Sleep(3 * shortLease)
				if !all[i].IsLeader() {
					t.Error("the new node gives no vote")
				}
				c.Heal()
			})
		}
	}
}

// Another number of nodes: pause, resign, restart all, resume.
func TestChangingTheNumberOfNodes(t *testing.T) {
	for _, to := range []struct {
		from, to []int
		within   time.Duration // no candidate leads
	}{
		{[]int{0}, []int{0, 1, 2}, 3 * shortLease / 2},
		{[]int{0, 1, 2}, []int{0, 1, 2, 3, 4}, 3 * shortLease / 2},
		{[]int{0, 1, 2}, []int{0}, 3 * shortLease / 2},
	} {
		sub(t, fmt.Sprintf("%d to %d", len(to.from), len(to.to)), 5, func(t *testing.T, c *cluster) {
			cr := &crew{all: []*candidate{c.StartOn("a", to.from), c.StartOn("b", to.from), c.StartOn("d", to.from)}}
			_, term := first(t, 3*shortLease, cr.all...)
			time.Sleep(3 * shortLease)
			stop := watchLeaders(t, time.Millisecond, cr.now)
			before, after := c.Quorum("operator", to.from...), c.Quorum("operator", to.to...)

			must(t, electionOf(before, "orders").Pause(t.Context(), 0, "other nodes"))
			if _, _, err := electionOf(before, "orders").StepDown(t.Context(), "other nodes"); !errors.Is(err, elector.ErrNoLeader) {
				t.Fatalf("resign: %v", err)
			}
			for _, old := range cr.now() {
				cr.restart(c, old, to.to)
			}
			for _, q := range []*elector.Quorum{before, after} {
				must(t, electionOf(q, "orders").Resume(t.Context()))
			}
			lead, next := first(t, to.within, cr.now()...)
			time.Sleep(3 * shortLease)
			t.Logf("no candidate led for %v", stop())
			if next.Token() <= term.Token() || !next.Valid() {
				t.Errorf("token %d after %d, %v", next.Token(), term.Token(), next.Err())
			}
			for _, x := range cr.now() {
				if err := x.Check(); err != nil {
					t.Errorf("%s: %v", x.ID(), err)
				}
			}
			if st, err := electionOf(after, "orders").Status(t.Context()); err != nil || st.Leader == nil || st.Leader.Candidate != lead.ID() || st.Paused {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

// Addresses behind which several servers answer that do not replicate: no lock can hold there. How they choose:
var balancers = map[string]func(c *cluster){
	"each connection in turn": func(c *cluster) {
		i := 0
		c.Nodes[0].Balance(func(string) *node { i++; return c.Nodes[i%2] })
	},
	"each connection in turn, three servers": func(c *cluster) {
		i := 0
		c.Nodes[0].Balance(func(string) *node { i++; return c.Nodes[i%3] })
	},
	"each connection by lot": func(c *cluster) {
		rng := rand.New(rand.NewPCG(1, 2))
		c.Nodes[0].Balance(func(string) *node { return c.Nodes[rng.IntN(2)] })
	},
	"some commands": func(c *cluster) {
		var i atomic.Int64
		c.Nodes[0].On(func(cl call, p *server.Peer) bool {
			if i.Add(1)%5 > 1 || cl.Script == "looked" {
				return false
			}
			c.Nodes[0].RunAt(c.Nodes[1], cl, p)
			return true
		})
	},
}

func TestSeveralServersBehindOneAddress(t *testing.T) {
	for name, balance := range balancers {
		for _, seeded := range []bool{false, true} {
			sub(t, name, 3, func(t *testing.T, c *cluster) {
				if seeded {
					for i := range c.Nodes {
						s := c.StartOn("seed", []int{i})
						s.Elected(3 * shortLease)
						s.Shutdown()
					}
				}
				balance(c)
				all := []*candidate{c.StartOn("a", []int{0}), c.StartOn("b", []int{0}), c.StartOn("d", []int{0})}
				const look = shortLease / 500
				var both, row, most, late time.Duration
				for at := time.Duration(0); at < 30*shortLease; at += look {
					time.Sleep(look)
					n := len(leaders(all))
					if row += look; n < 2 {
						row = 0
					} else {
						both += look
					}
					if most = max(most, row); n > 0 && at > 10*shortLease {
						late += look
					}
				}
				t.Logf("two lead for %v, for %v at most without a break; one leads for %v of the last 20 leases", both, most, late)
				if most > shortLease*5/4 || both > 2*shortLease || late > 2*shortLease && strings.Contains(name, "turn") {
					t.Error("candidates lead beside each other, or again and again")
				}
				for _, x := range all {
					if lines := x.Log.Lines("cannot campaign", "127.0.0.1:7001: leads to several servers (identities ", "): give the address of one"); len(lines) == 0 || len(lines) > 3 && strings.Contains(name, "turn") {
						t.Errorf("%s logged %d times: %v", x.ID(), len(lines), x.Check())
					}
				}
				c.Nodes[0].Balance(nil)
				c.Nodes[0].On(nil)
				first(t, 6*shortLease, all...)
			})
		}
	}
}

// A name moves to a new server, for new connections only: the old one still answers. All candidates follow it within some
// leases, the time for which they suspect the address included, and lead there.
func TestNameMovesWhileTheOldServerAnswers(t *testing.T) {
	for phase := range 4 {
		bubble(t, 1, func(t *testing.T, c *cluster) {
			all, term, _ := trio(t, c)
			time.Sleep(5*shortLease + time.Duration(phase)*shortLease/16)
			to := c.NewNode("127.0.0.1:7009")
			c.Nodes[0].Balance(func(string) *node { return to })
			wantReason(t, term, 5*shortLease, elector.ReasonLost)
			none, both := ledFor(8*shortLease, all...)
			if none > 5*shortLease/2 || both > shortLease/100 || !to.Server().Exists(lockKey) {
				t.Errorf("%v without a leader, and two for %v", none, both)
			}
			if roll, err := electionOf(c.Quorum("operator"), "orders").Candidates(t.Context()); len(roll) != len(all) || err != nil {
				t.Errorf("%d candidates answer, %v", len(roll), err)
			}
		})
	}
}

// One address of three leads to a replacement for a while, and then back: an identity returns, as of an address that leads
// to several servers. That node has no vote for a lease, and the leader needs none.
func TestAddressThatShowsItsOldIdentityAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, _ := trio(t, c)
		time.Sleep(2 * shortLease)
		to := c.NewNode("127.0.0.1:7009")
		for _, server := range []*node{to, c.Nodes[2]} {
			c.Nodes[2].Balance(func(string) *node { return server })
			c.Nodes[2].Reset("")
			time.Sleep(2 * shortLease)
		}
		continues(t, term)
		must(t, errors.Join(all[0].Check(), all[1].Check(), all[2].Check()))
		c.Nodes[1].Set(down) // the vote counts again
		time.Sleep(3 * shortLease)
		continues(t, term)
	})
}

// never2 checks from now on, every few milliseconds, that at most one term is valid.
func never2(t *testing.T, cs ...*candidate) (stop func()) {
	end := watchLeaders(t, 5*time.Millisecond, func() []*candidate { return cs })
	return func() { end() }
}

// A follower learns while another leads that the nodes would not let it take the lock, and that they would again.
func TestFollowerLearnsThatItCouldNotClaim(t *testing.T) {
	for full, able := range map[int]bool{1: true, 2: false, 3: false} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			c.Nodes[2].Set(fault{Delay: shortLease / 300}) // so far away that no claim waits for it
			_, term := leading(c, "a")
			b := c.Start("b")
			b.Quiet(2 * shortLease)
			for _, n := range c.Nodes[:full] {
				n.Fill(true)
			}
			b.Quiet(shortLease * 5 / 4)
			if err := b.Check(); (err == nil) != able || !able && !strings.Contains(err.Error(), "OOM command not allowed") {
				t.Errorf("%d of 3 are full: %v", full, err)
			}
			for _, n := range c.Nodes {
				n.Fill(false)
				n.Took()
			}
			b.Quiet(shortLease * 5 / 4)
			if err := b.Check(); err != nil || c.Nodes[0].TookOf("claim") > 2 {
				t.Errorf("not full any more: %v", err)
			}
			continues(t, term)
		})
	}
}

func TestMajorityDown(t *testing.T) {
	for name, f := range map[string]fault{"refused": down, "frozen": frozen, "cut": cut} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			all := []*candidate{c.Start("a"), c.Start("b"), c.Start("c")}
			leader, term := first(t, 3*shortLease, all...)
			time.Sleep(shortLease)
			defer never2(t, all...)()
			for _, nd := range c.Nodes[:2] {
				nd.Set(f)
			}
			began := time.Now()
			wantReason(t, term, shortLease, elector.ReasonExpired)
			if d := time.Since(began); d > deadlineAfter {
				t.Errorf("led for %v without a majority", d)
			}
			if leader.IsLeader() {
				t.Error("IsLeader after the deadline")
			}
			time.Sleep(12 * shortLease)
			for _, x := range all {
				if len(x.Terms) > 0 {
					t.Fatalf("%s was elected by a minority", x.ID())
				}
				if lines := x.Log.Lines(""); len(lines) > 15+2+2*(1+2) { // the configuration, the leader, two reminders of each condition
					t.Errorf("%s: the log floods: %d lines", x.ID(), len(lines))
				}
				if x.Check() == nil {
					t.Errorf("%s is ready", x.ID())
				}
			}
			c.Heal()
			_, next := first(t, shortLease/2, all...)
			newer(t, next, term)
			time.Sleep(shortLease)
			for _, x := range all {
				if err := x.Check(); err != nil {
					t.Errorf("%s: %v", x.ID(), err)
				}
			}
		})
	}
}

func TestLeaderOnTheMinoritySide(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b, term := pair(c, shortLease)
		stop := never2(t, a, b)
		c.Nodes[0].Set(cut, "b")
		c.Nodes[1].Set(cut, "a")
		c.Nodes[2].Set(cut, "a")
		began := time.Now()
		wantReason(t, term, shortLease, elector.ReasonExpired)
		if d := time.Since(began); d > deadlineAfter {
			t.Errorf("stopped only after %v", d)
		}
		two := b.Elected(shortLease)
		if d := time.Since(began); d > shortLease+shortLease/4 {
			t.Errorf("the other side elected after %v", d)
		}
		newer(t, two, term)
		time.Sleep(5 * shortLease)
		c.Heal()
		time.Sleep(5 * shortLease)
		stop()
		if !two.Valid() || len(a.Terms) > 0 {
			t.Errorf("healing cost the term: %v", two.Err())
		}
		if c.Locks() != 3 {
			t.Errorf("%d locks", c.Locks())
		}
		if err := a.Check(); err != nil {
			t.Errorf("a: %v", err)
		}
	})
}

func TestNodeThatForgotGrantsNothingForALease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, term := leading(c, "a")
		time.Sleep(shortLease)
		// The leader can't reach two of the nodes any more, and one of them
		// forgets: with that node's vote b could win beside it, at once.
		c.Nodes[1].Set(cut, "a")
		c.Nodes[2].Set(cut, "a")
		c.Nodes[1].RestartEmpty()
		c.Nodes[2].RestartEmpty()
		b := c.Start("b")
		stop := never2(t, a, b)
		began := time.Now()
		two := b.Elected(3 * shortLease)
		if d := time.Since(began); d < shortLease {
			t.Errorf("nodes that forgot voted after %v", d)
		}
		stop()
		newer(t, two, term)
	})
}

func TestPlantIsNoVote(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a")
		time.Sleep(shortLease)
		c.Nodes[2].Set(down, "a")
		c.Nodes[1].Server().FlushAll() // no restart: a broken connection would hide the plant
		c.Nodes[0].Took()
		before := term.Deadline()
		time.Sleep(shortLease / 2)
		var renewals []time.Time
		for _, cl := range c.Nodes[0].Took() {
			if cl.Script == "renew" {
				renewals = append(renewals, cl.At)
			}
		}
		if len(renewals) < 2 {
			t.Fatalf("%d renewals", len(renewals))
		}
		// The round that planted had no majority: it is tried again soon.
		if gap := renewals[1].Sub(renewals[0]); gap > shortLease/16+10*time.Millisecond {
			t.Errorf("the plant counted as a vote: the next renewal came %v later", gap)
		}
		if !term.Valid() || !term.Deadline().After(before) {
			t.Errorf("lost: %v", term.Err())
		}
	})
}

// The clock of one node after the other is stepped beyond all that it keeps, at any moment between two renewals: the
// locks of the others hold.
func TestClocksOfNodesAreStepped(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a")
		b := c.Start("b")
		for i := range 60 {
			b.Quiet(shortLease/2 + time.Duration(i)*shortLease/240)
			c.Nodes[i%3].Server().FastForward(time.Hour)
		}
		b.Quiet(2 * shortLease)
		continues(t, term)
	})
}

// Elections of one name in two namespaces have nothing to do with each other.
func TestNamespace(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.Quorum("operator")
		team := q.Namespace("team-a")
		if q.Prefix() != "mandate" || team.Prefix() != "team-a" || q.Namespace("").Prefix() != "mandate" {
			t.Errorf("%q, %q", q.Prefix(), team.Prefix())
		}
		c.Start("a").Elected(3 * shortLease)
		if _, err := electionOf(team, "orders").Leader(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("the leader of another namespace: %v", err)
		}
		if names, err := team.Elections(t.Context()); err != nil || len(names) != 0 {
			t.Errorf("%q, %v", names, err)
		}
		for _, bad := range []string{"a b", "{p}"} {
			_, err := q.Namespace(bad).Election("orders")
			_, aserr := elector.New(q.Namespace(bad), elector.Config{Election: "orders"})
			if _, lerr := q.Namespace(bad).Elections(t.Context()); err == nil || aserr == nil || lerr == nil {
				t.Errorf("the prefix %q was taken: %v, %v, %v", bad, err, aserr, lerr)
			}
		}
	})
}
