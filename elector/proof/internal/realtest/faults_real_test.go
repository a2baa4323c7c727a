//go:build unix

package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// CLIENT PAUSE, as a failover or an operator does it: a short one is ridden, a
// long one ends the term in time, and costs no more.
func TestRealClientPause(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 1)
	servers[0].Do(t, "CLIENT", "PAUSE", (lease / 4).Milliseconds(), "WRITE")
	el.survives(term, lease)
	servers[0].Do(t, "CLIENT", "PAUSE", (3 * lease).Milliseconds())
	el.ends(term, lease, elector.ReasonExpired)
	el.next(term.Token(), 3*lease+lease+slack)
}

// A full Redis without eviction: the leader goes on. Nobody else could be elected, and the transfer
// that would try it is refused.
func TestRealFullMemory(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 1)
	servers[0].Do(t, "CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")
	outside := electionOf(open(t, servers[0].URL()), "orders")
	if _, err := outside.Transfer(t.Context(), "b"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("transfer: %v", err)
	}
	el.survives(term, el.lease)
	for _, c := range el.all { // a refused reservation must not hide who holds the lock
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", c.ID(), err)
		}
	}
}

// A full Redis keeps the settings of a group whose members run: one with another number of shards, which
// would own other things under the same names, does not join when there is memory again.
func TestRealFullMemoryKeepsTheSettingsOfAGroup(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	server := servertest.Redis(t, servertest.AOF...)
	join := func(shards int) (*shard.Member, chan error) {
		m, err := shard.New(open(t, server.URL()), shard.Config{Group: "orders", Shards: shards, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		done, ended := make(chan error, 1), make(chan struct{})
		t.Cleanup(func() { <-ended })
		go func() {
			defer close(ended)
			done <- m.Run(t.Context(), func(ctx context.Context, _ *shard.Term) error {
				<-ctx.Done()
				return nil
			})
		}()
		return m, done
	}
	m, first := join(2)
	servertest.Eventually(t, slack, "all shards are owned", func() bool { return len(m.Owned()) == 2 })
	server.Do(t, "CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")
	select {
	case err := <-first:
		t.Fatalf("the member ended: %v", err)
	case <-time.After(3 * lease): // the settings live for two leases
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	_, second := join(4)
	select {
	case err := <-second:
		if err == nil || !strings.Contains(err.Error(), "have 2 shards") {
			t.Errorf("the newcomer: %v", err)
		}
	case err := <-first:
		t.Errorf("the member that ran ended: %v", err)
	case <-time.After(slack):
		t.Error("a member with another number of shards has joined")
	}
}

// FLUSHALL everywhere: nobody remembers anything. Tokens don't go back, and
// never two at once, because nodes that forgot abstain.
func TestRealFlushAll(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	// A renewal that falls in between plants the lock again on the first node, and then
	// it is no majority that lost it.
	for try := 0; try < 10 && term.Valid(); try++ {
		for _, s := range servers {
			s.Do(t, "FLUSHALL")
		}
		_, _, _ = testcluster.Await(term.Done(), lease/2)
	}
	el.ends(term, slack, elector.ReasonLost)
	_, two := el.next(term.Token(), 2*lease+slack)
	el.survives(two, lease)
}

// No connection is left: who has one goes on, a newcomer waits, says so, and
// takes part as soon as there is room.
func TestRealMaxClients(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 1)
	op := servers[0].Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	clients := strings.Count(op.ClientList(t.Context()).Val(), "\n")
	if err := op.ConfigSet(t.Context(), "maxclients", fmt.Sprint(clients)).Err(); err != nil {
		t.Fatal(err)
	}
	c := el.join("c", open(t, urlsOf(servers)...))
	// In whose words depends on what is first, Redis' or its closing the connection.
	servertest.Eventually(t, lease+slack, "the newcomer says that it can't take part", func() bool {
		return errors.Is(c.Check(), elector.ErrUnreachable)
	})
	el.survives(term, 3*lease)
	if logged := c.Log.Lines("cannot campaign"); len(logged) != 1 || !c.Running() {
		t.Errorf("running: %v; logged %d times: %q", c.Running(), len(logged), logged)
	}
	if err := op.ConfigSet(t.Context(), "maxclients", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, lease+slack, "the newcomer takes part", func() bool { return c.Check() == nil })
	el.survives(term, lease/2)
}

// A minority that hangs costs nothing: not the term, and not the handover.
func TestRealHungMinority(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	servers[0].Hang(t)
	el.survives(term, 2*lease)
	el.all[0].shutdown()
	_, two := el.next(term.Token(), lease)
	servers[0].Wake(t)
	el.survives(two, lease)
}

// A majority that hangs: the leader stops by its deadline, no candidate leads, and
// when they are back somebody does, within a lease and a little.
func TestRealHungMajority(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	began := time.Now()
	for _, s := range servers[:2] {
		s.Hang(t)
	}
	el.ends(term, lease, elector.ReasonExpired)
	if d := time.Since(began); d > lease {
		t.Errorf("the work was told %v after the last possible renewal, with a lease of %v", d, lease)
	}
	time.Sleep(lease)
	for _, c := range el.all {
		if c.IsLeader() {
			t.Errorf("%s leads without a majority", c.ID())
		}
		if c.Check() == nil {
			t.Errorf("%s: Check is content without a majority", c.ID())
		}
	}
	for _, s := range servers[:2] {
		s.Wake(t)
	}
	_, two := el.next(term.Token(), lease+slack)
	el.survives(two, lease)
}

// Every node in turn is killed and comes back with its data: the term goes on,
// a single node included, because nothing was forgotten.
func TestRealKilledWithData(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			t.Parallel()
			servers, el, term := contested(t, n)
			for _, s := range servers {
				s.Kill()
				s.Restart(t)
				if n > 1 { // a single node may be late on a busy machine
					el.survives(term, lease/2)
				}
			}
			time.Sleep(lease / 2)
			_, now := el.next(0, lease+slack) // the old term, or one that follows its end
			el.survives(now, lease)
		})
	}
}

// Nodes of a minority come back empty, one after the other: the term goes on,
// and the lock is planted there again.
func TestRealMinorityForgets(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	for _, s := range servers {
		s.Kill()
		s.Forget(t)
		s.Restart(t)
		op := s.Client(t)
		servertest.Eventually(t, lease+slack, "the lock is planted again", func() bool { return op.Exists(t.Context(), lockKey).Val() == 1 })
		el.survives(term, lease) // the node abstains meanwhile
	}
}
