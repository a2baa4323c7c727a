//go:build unix

package realtest_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/internal/servertest"
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

func TestRealClientPauseOfAMinority(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	servers[1].Do(t, "CLIENT", "PAUSE", (3 * lease).Milliseconds())
	el.survives(term, 4*lease)
}

// The lock is evicted: noticed by the next renewal, and the next token is larger.
func TestRealEviction(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 1, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")
	el.forgives = true // one Redis that loses its data: until the old leader's next renewal
	stuff := strings.Repeat("x", 16<<10)
	op := servers[0].Client(t)
	for i := 0; term.Valid() && i < 100_000; i++ {
		if err := op.Set(t.Context(), fmt.Sprintf("stuff:%d", i), stuff, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n := op.Info(t.Context(), "stats").Val(); strings.Contains(n, "evicted_keys:0\r") {
		t.Fatal("nothing was evicted")
	}
	el.ends(term, slack, elector.ReasonLost)
	servers[0].Do(t, "CONFIG", "SET", "maxmemory", "0")
	lifted := time.Now()
	_, two := el.next(term.Token(), 2*lease+slack)
	if two.Since().Before(lifted) { // the last write may have evicted this one's lock, too, as its next renewal tells
		if _, _, lost := testcluster.Await(two.Done(), lease); lost {
			_, two = el.next(two.Token(), 2*lease+slack)
		}
	}
	el.survives(two, lease)
}

// repeat makes nodes lose the lock until the term has ended: a renewal that falls in between
// plants it again on the first of them, and then it is no majority that lost it.
func repeat(term *elector.Term, lose func()) {
	for try := 0; try < 10 && term.Valid(); try++ {
		lose()
		_, _, _ = testcluster.Await(term.Done(), lease/2)
	}
}

// A full Redis without eviction: the leader goes on, and what a renewal writes is written, because
// the script has prolonged the lease before. Nobody else could be elected, and the transfer
// that would try it is refused.
func TestRealFullMemory(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 1)
	leader, _ := el.next(0, slack)
	servers[0].Do(t, "CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")
	if err := leader.SetAdvertise("http://a:81"); err != nil {
		t.Fatal(err)
	}
	outside := electionOf(open(t, servers[0].URL()), "orders")
	servertest.Eventually(t, slack, "the address is in the lock", func() bool {
		l, err := outside.Leader(t.Context())
		return err == nil && l.Advertise == "http://a:81" && l.Token == term.Token()
	})
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

// An operator's DEL on a majority: the term ends at the next renewal.
func TestRealKeyDeleted(t *testing.T) {
	t.Parallel()
	eachSize(t, func(t *testing.T, n int) {
		servers, el, term := contested(t, n)
		el.forgives = true // the lock is free at once: an operator overrules the lease
		repeat(term, func() {
			for _, s := range servers[:n/2+1] {
				s.Do(t, "DEL", lockKey)
			}
		})
		el.ends(term, slack, elector.ReasonLost)
		el.next(term.Token(), lease+slack)
	})
}

// FLUSHALL everywhere: nobody remembers anything. Tokens don't go back, and
// never two at once, because nodes that forgot abstain.
func TestRealFlushAll(t *testing.T) {
	t.Parallel()
	eachSize(t, func(t *testing.T, n int) {
		servers, el, term := contested(t, n)
		for range 2 {
			repeat(term, func() {
				for _, s := range servers {
					s.Do(t, "FLUSHALL")
				}
			})
			el.ends(term, slack, elector.ReasonLost)
			_, term = el.next(term.Token(), 2*lease+slack)
			time.Sleep(lease / 2)
		}
	})
}

// refusals are ways in which a server that answers refuses. repair undoes it.
var refusals = []struct {
	name, says    string
	spoil, repair func(t *testing.T, s *servertest.Server)
}{
	{
		"READONLY", "READONLY",
		func(t *testing.T, s *servertest.Server) { s.Do(t, "REPLICAOF", "127.0.0.1", servertest.FreePort(t)) },
		func(t *testing.T, s *servertest.Server) { s.Do(t, "REPLICAOF", "NO", "ONE") },
	},
	{
		"MISCONF", "MISCONF",
		func(t *testing.T, s *servertest.Server) {
			if err := os.RemoveAll(s.Dir); err != nil { // no snapshot can be written any more
				t.Fatal(err)
			}
			s.Do(t, "CONFIG", "SET", "save", "3600 1")
			_ = s.Client(t).BgSave(t.Context()).Err()
			servertest.Eventually(t, slack, "the snapshot fails", func() bool {
				return strings.Contains(s.Client(t).Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
			})
		},
		func(t *testing.T, s *servertest.Server) {
			s.Do(t, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		},
	},
	{
		"rights taken away", "NOPERM",
		func(t *testing.T, s *servertest.Server) { s.Do(t, "ACL", "SETUSER", "default", "-eval", "-evalsha") },
		func(t *testing.T, s *servertest.Server) { s.Do(t, "ACL", "SETUSER", "default", "+@all") },
	},
	{
		"password changed", "WRONGPASS",
		func(t *testing.T, s *servertest.Server) {
			s.Do(t, "ACL", "SETUSER", "default", "on", "nopass")
			s.Do(t, "ACL", "SETUSER", "worker", "resetpass", ">rotated")
			s.Do(t, "CLIENT", "KILL", "USER", "worker")
		},
		func(t *testing.T, s *servertest.Server) { s.Do(t, "ACL", "SETUSER", "worker", ">secret") },
	},
}

// A server that refuses half-way: ridden, said once, no process ends; when it
// is healed a candidate leads, with a larger token.
func TestRealRefusedHalfWay(t *testing.T) {
	t.Parallel()
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t)
			el := newElectorate(t)
			url := loginFor(t, r.says, s)
			el.join("a", open(t, url))
			_, term := el.next(0, lease+slack)
			el.join("b", open(t, url))
			follows(t, s)
			r.spoil(t, s)
			el.ends(term, lease, elector.ReasonExpired)
			time.Sleep(3 * lease)
			for _, c := range el.all {
				switch err := c.Check(); {
				case !c.Running():
					t.Errorf("%s: Run ended: %v", c.ID(), c.Result)
				case err == nil || !strings.Contains(err.Error(), r.says):
					t.Errorf("%s: Check says %v, want %s", c.ID(), err, r.says)
				}
				// Another line is that of a request which a busy machine has cut off.
				if logged := c.Log.Lines("cannot campaign", r.says); len(logged) != 1 {
					t.Errorf("%s logged it %d times: %q", c.ID(), len(logged), logged)
				}
			}
			r.repair(t, s)
			_, two := el.next(term.Token(), lease+slack)
			el.survives(two, lease)
		})
	}
}

// One of three refuses: the term goes on, and it is said once.
func TestRealRefusedByAMinority(t *testing.T) {
	t.Parallel()
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			servers := servertest.RedisN(t, 3)
			el := newElectorate(t)
			urls := urlsOf(servers)
			urls[2] = loginFor(t, r.says, servers[2])
			a := el.join("a", open(t, urls...))
			_, term := el.next(0, lease+slack)
			r.spoil(t, servers[2])
			el.survives(term, 3*lease)
			if logged := a.Log.Lines("redis node answered with an error", r.says); len(logged) != 1 {
				t.Errorf("logged %d times: %q", len(logged), logged)
			}
			if err := a.Check(); err != nil {
				t.Errorf("Check: %v", err)
			}
			r.repair(t, servers[2])
			servertest.Eventually(t, 2*lease+slack, "the node takes part again", func() bool { return len(a.Log.Lines("responds again")) == 1 })
			el.survives(term, lease/2)
		})
	}
}

// loginFor makes the user "worker" where the refusal is about passwords.
func loginFor(t *testing.T, says string, s *servertest.Server) string {
	t.Helper()
	if says != "WRONGPASS" {
		return s.URL()
	}
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
	return "redis://worker:secret@" + s.Addr()
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
