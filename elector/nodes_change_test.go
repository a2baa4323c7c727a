package elector_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

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

// vacancy measures how long no candidate led, in all, until the returned function is called;
// and it wants that never two lead.
func (cr *crew) vacancy(t *testing.T) (stop func() time.Duration) {
	quit, total := make(chan struct{}), make(chan time.Duration)
	go func() {
		var without time.Duration
		for {
			select {
			case <-quit:
				total <- without
				return
			case <-time.After(time.Millisecond):
			}
			var who []string
			for _, x := range cr.now() {
				if x.IsLeader() {
					who = append(who, x.ID())
				}
			}
			if len(who) == 0 {
				without += time.Millisecond
			}
			if len(who) > 1 {
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
			t.Run(fmt.Sprintf("data=%v,leaderLast=%v", withData, leaderLast), func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, c *cluster) {
					spare := c.NewNode("127.0.0.1:7099")
					list := []int{0, 1, 2}
					cr := &crew{all: []*candidate{c.StartOn("a", list), c.StartOn("b", list), c.StartOn("d", list)}}
					_, term := first(t, 3*shortLease, cr.all...)
					time.Sleep(3 * shortLease)
					stop := cr.vacancy(t)

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
					for _, nd := range c.Nodes[:1] { // the new node votes: others may go
						nd.Set(down)
					}
					time.Sleep(3 * shortLease)
					if !all[i].IsLeader() {
						t.Error("the new node gives no vote")
					}
					c.Heal()
				})
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
		t.Run(fmt.Sprintf("%d to %d", len(to.from), len(to.to)), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, c *cluster) {
				cr := &crew{all: []*candidate{c.StartOn("a", to.from), c.StartOn("b", to.from), c.StartOn("d", to.from)}}
				_, term := first(t, 3*shortLease, cr.all...)
				time.Sleep(3 * shortLease)
				stop := cr.vacancy(t)
				before, after := c.QuorumOf("operator", to.from...), c.QuorumOf("operator", to.to...)

				if err := electionOf(before, "orders").Pause(t.Context(), 0, "other nodes"); err != nil {
					t.Fatal(err)
				}
				if _, err := electionOf(before, "orders").StepDown(t.Context(), "other nodes"); !errors.Is(err, elector.ErrNoLeader) {
					t.Fatalf("resign: %v", err)
				}
				for _, old := range cr.now() {
					cr.restart(c, old, to.to)
				}
				for _, q := range []*elector.Quorum{before, after} {
					if err := electionOf(q, "orders").Resume(t.Context()); err != nil {
						t.Fatal(err)
					}
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
		})
	}
}
