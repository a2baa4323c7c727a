//go:build unix

package realtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

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
	follows(t, d.master.Client(t))
	d.cutReplication(t) // from here on the replica is stale
	a.shutdown()
	_, two := el.next(one.Token(), lease+slack)
	d.master.Kill()
	stale := d.promoted(t).Client(t)
	if v := stale.Get(t.Context(), lockKey).Val(); v != "" && v[0] == 'b' {
		t.Fatalf("the replica is not stale: it holds %q", v)
	}
	ended := el.ends(two, el.lease+slack, elector.ReasonLost)
	t.Logf("noticed: %v", ended)
	_, three := el.next(two.Token(), 2*el.lease+slack)
	el.survives(three, lease)
	if err := b.Check(); err != nil {
		t.Errorf("Check: %v", err)
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
	el.ends(term, lease+slack, elector.ReasonExpired)
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
	el.next(term.Token(), lease+slack)
}
