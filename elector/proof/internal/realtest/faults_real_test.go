//go:build unix

package realtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/shard"
)

// A full Redis without eviction: the leader goes on. Nobody else could be elected, as followers know, and the transfer
// that would try it is refused. A leader that steps down all the same releases its lock, and its end is recorded.
func TestRealFullMemory(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 1)
	servers[0].Do(t, "CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")
	outside := electionOf(open(t, servers[0].URL()), "orders")
	if _, _, err := outside.Transfer(t.Context(), "b"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("transfer: %v", err)
	}
	el.survives(term, el.lease)
	for _, c := range el.all { // a refused reservation must not hide who holds the lock
		leader, _ := c.LastLeader()
		if err := c.Check(); c.IsLeader() != (err == nil) || err != nil && !strings.Contains(err.Error(), "OOM") || leader.Token != term.Token() && !c.IsLeader() {
			t.Errorf("%s: %v, leader %+v", c.ID(), err, leader)
		}
	}
	term.Resign()
	wantReason(t, term, slack, elector.ReasonResigned)
	servertest.Eventually(t, slack, "the end is recorded", func() bool {
		terms, err := outside.History(t.Context(), 1)
		return err == nil && terms[0].Token == term.Token() && terms[0].Reason == elector.ReasonResigned
	})
}

// A full Redis keeps the settings of a group whose members run: one with another number of shards, which
// would own other things under the same names, does not join when there is memory again.
func TestRealFullMemoryKeepsTheSettingsOfAGroup(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	server := servertest.Redis(t, servertest.AOF...)
	join := func(shards int) (*shard.Member, <-chan error) {
		return runMember(t, t.Context(), open(t, server.URL()), shard.Config{Shards: shards, Lease: lease})
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

// Before downLate has passed no failover is over before a lease has ended. With less it can be,
// and then the term goes on: Valkey 9 promotes a replica sooner than others.
var downLate = lease + time.Second

// A failover takes the time after which a master counts as down, a vote of the sentinels and a
// promotion; on a quiet machine some two seconds in all.
const failover = 20 * time.Second

// The replica that is promoted lags: it knows neither the lock nor the token of
// the leader. The loss is noticed, and tokens don't go back.
func TestRealSentinelFailoverToAStaleReplica(t *testing.T) {
	t.Parallel()
	d := startSentinels(t)
	el := newElectorate(t)
	el.lease = 15 * time.Second // the term outlasts the failover: nothing but the loss can end it
	el.forgives = true
	a := el.join("a", open(t, d.url()))
	_, one := el.next(0, lease+slack)
	b := el.join("b", open(t, d.url()))
	el.follow(d.master.Client(t))
	d.cutReplication(t) // from here on the replica is stale
	a.shutdown()
	_, two := el.next(one.Token(), lease+slack)
	d.master.Kill()
	stale := d.promoted(t).Client(t)
	if v := stale.Get(t.Context(), lockKey).Val(); v != "" && v[0] == 'b' {
		t.Fatalf("the replica is not stale: it holds %q", v)
	}
	ended := wantReason(t, two, el.lease+slack, elector.ReasonLost)
	t.Logf("noticed: %v", ended)
	_, three := el.next(two.Token(), 2*el.lease+slack)
	el.survives(three, lease)
	if err := b.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// After a planned failover the former master serves for ten seconds more. The term goes on, at the new master, and nobody
// takes the lock that the leader has left behind.
func TestRealSentinelPlannedFailover(t *testing.T) {
	t.Parallel()
	d := startSentinels(t)
	el := newElectorate(t)
	el.lease = 4 * time.Second // the sentinels need about a second to learn of the promotion
	el.join("a", open(t, d.url()))
	_, one := el.next(0, el.lease+slack)
	for _, id := range []string{"b", "c"} {
		el.join(id, open(t, d.url()))
	}
	el.survives(one, el.lease/2)
	d.sentinels[0].Do(t, "SENTINEL", "FAILOVER", "main")
	el.survives(one, 3*el.lease)
	if v := d.promoted(t).Client(t).Get(t.Context(), lockKey).Val(); !strings.HasPrefix(v, "a/") {
		t.Errorf("the new master has the lock %q", v)
	}
	for _, s := range d.sentinels {
		s.Hang(t)
	}
	el.survives(one, 2*el.lease) // who can't be asked ends no term
}

// The master is cut off from its replica and the sentinels, but for one that sees nothing else, and a leader is on its
// side. Unless the master counts its replicas, that leader goes on for as long as the partition lasts, beside the next
// one; with min-replicas-to-write its term ends min-replicas-max-lag, two seconds (Redis looks once a second, and counts
// whole ones), and a lease after the cut.
func TestRealSentinelPartition(t *testing.T) {
	const maxLag = 2 * time.Second
	for name, set := range map[string]int{"unbounded": 0, "min-replicas-to-write": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startSentinels(t)
			d.master.Do(t, "CONFIG", "SET", "min-replicas-to-write", set, "min-replicas-max-lag", int(maxLag.Seconds()))
			const app = "?master_name=main&username=app&password=app"
			for _, s := range []*servertest.Server{d.master, d.replica} {
				s.Do(t, "ACL", "SETUSER", "app", "on", ">app", "~*", "&*", "+@all")
			}
			d.master.Do(t, "ACL", "SETUSER", "near", "on", ">near", "~*", "+@all", "-publish", "-subscribe")
			d.replica.Do(t, "ACL", "SETUSER", "default", "-publish", "-subscribe", "-slaveof") // whom nobody knows is that
			near := d.sentinel(t, "near")
			awaitInfo(t, near, "slaves=1,sentinels=1", "INFO", "sentinel")
			el := newElectorate(t)
			el.lease, el.forgives = 2*time.Second, true
			el.join("old", open(t, "redis+sentinel://"+near.Addr()+app))
			_, one := el.next(0, el.lease+slack)
			el.survives(one, el.lease)
			d.cutOff(t)
			cut := time.Now()
			awaitInfo(t, d.sentinels[0], "address="+d.replica.Addr(), "INFO", "sentinel")
			t.Logf("the replica was promoted %v after the cut", time.Since(cut))
			el.join("new", open(t, "redis+sentinel://"+d.sentinels[0].Addr()+app))
			_, two := el.next(one.Token(), el.lease+failover)
			t.Logf("the next leader came %v after the cut", time.Since(cut))
			if set == 0 {
				el.survives(one, 6*el.lease)
				el.survives(two, 0)
				return
			}
			wantReason(t, one, maxLag+2*time.Second+el.lease-time.Since(cut), elector.ReasonExpired)
			t.Logf("the old one's term ended %v after the cut", time.Since(cut))
		})
	}
}

// clustered starts a Cluster with an election on it, with the rights of the
// shipped file and those that docs/redis.md adds for a Cluster. A master that is
// silent for down is replaced.
func clustered(t *testing.T, down time.Duration) (c cluster, el *electorate, term *elector.Term, slot int64, owner, replica *servertest.Server) {
	t.Helper()
	c = startCluster(t, down)
	el = newElectorate(t)
	el.forgives = true // not across a failover: see README
	user := []any{"ACL", "SETUSER", "mandate", "on", ">change-me", "+cluster|slots", "+command", "+asking"}
	for _, right := range shipped(t, candidates) {
		user = append(user, right)
	}
	for _, s := range c {
		s.Do(t, user...)
	}
	t.Cleanup(func() {
		for _, s := range c {
			if s.Up() {
				if all := denied(t, s, candidates); len(all) > 0 {
					t.Errorf("%s refused %q", s.Addr(), all)
				}
			}
		}
	})
	url := strings.Replace(c.url(), "://", "://mandate:change-me@", 1)
	el.join("a", open(t, url))
	_, term = el.next(0, lease+slack)
	el.join("b", open(t, url))
	slot, _ = c[0].Do(t, "CLUSTER", "KEYSLOT", lockKey).(int64)
	owner, replica = c.owner(slot)
	time.Sleep(lease / 2)
	return c, el, term, slot, owner, replica
}

// The master of the election's slot dies, and its replica is promoted.
func TestRealClusterMasterKilled(t *testing.T) {
	t.Parallel()
	_, el, term, _, owner, replica := clustered(t, downLate)
	owner.Kill()
	wantReason(t, term, lease+slack, elector.ReasonExpired)
	_, two := el.next(term.Token(), lease+failover)
	el.survives(two, 2*lease)
	if n := replica.Client(t).Exists(t.Context(), lockKey).Val(); n != 1 {
		t.Error("the promoted replica does not hold the lock")
	}
}

// The slot of the election moves to another master while a leader leads: a few
// renewals are refused on the way, and the term goes on.
func TestRealClusterSlotMoved(t *testing.T) {
	t.Parallel()
	// No failover meanwhile, also when a busy machine keeps a master silent for seconds.
	c, el, term, slot, owner, _ := clustered(t, time.Minute)
	to := c[0]
	if to == owner {
		to = c[1]
	}
	c.move(t, slot, owner, to)
	el.survives(term, 2*el.lease)
	if n := to.Client(t).Exists(t.Context(), lockKey).Val(); n != 1 {
		t.Error("the slot's new master does not hold the lock")
	}
	el.all[0].shutdown() // and hand over there
	next, _ := el.next(term.Token(), lease+slack)
	terms, err := electionOf(next.Q, "orders").History(t.Context(), 10)
	if !slices.ContainsFunc(terms, func(r elector.TermRecord) bool { return r.Token == term.Token() && r.Reason == elector.ReasonShutdown }) {
		t.Errorf("the end was not recorded there: %+v, %v", terms, err)
	}
}
