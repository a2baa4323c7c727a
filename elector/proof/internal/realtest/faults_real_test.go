//go:build unix

package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// A full Redis without eviction: the leader goes on. Nobody else could be elected, and the transfer
// that would try it is refused. A leader that steps down all the same releases its lock, and its end is recorded.
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
	wantReason(t, term, slack, elector.ReasonDataLost)
	_, two := el.next(term.Token(), 2*lease+slack)
	el.survives(two, lease)
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
	wantReason(t, term, lease, elector.ReasonExpired)
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

// replace writes a file as operators should: there is never half of it.
func replace(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// Each second the password in the file is another one, the last one is refused, and the servers close the connections
// that logged in with it, as with the tokens of AWS IAM and Azure Entra: that costs no term, and no subscription.
func TestRealPasswordRotation(t *testing.T) {
	t.Parallel()
	const rotations = 12
	servers := servertest.RedisN(t, 3)
	password := func(i int) string { return fmt.Sprintf("secret-%d", i) }
	file := filepath.Join(t.TempDir(), "password")
	replace(t, file, password(0)+"\n")
	var urls []string
	for _, s := range servers {
		rule := []any{"ACL", "SETUSER", candidates, "on", ">" + password(0)}
		for _, right := range shipped(t, candidates) {
			rule = append(rule, right)
		}
		s.Do(t, rule...)
		urls = append(urls, "redis://"+candidates+"@"+s.Addr()+"?password_file="+url.QueryEscape(file))
	}
	el := newElectorate(t)
	el.lease = 5 * lease // TestTokensThatLiveForASecond has many leases, by a clock of its own
	a := el.join("a", open(t, urls...))
	_, term := el.next(0, el.lease+slack)
	b := el.join("b", open(t, urls...))
	for i := 1; i <= rotations; i++ {
		for _, s := range servers {
			s.Do(t, "ACL", "SETUSER", candidates, ">"+password(i))
		}
		replace(t, file, password(i)+"\n")
		for _, s := range servers {
			s.Do(t, "ACL", "SETUSER", candidates, "<"+password(i-1))
			s.Do(t, "CLIENT", "KILL", "USER", candidates)
		}
		el.survives(term, time.Second)
	}
	const requests = "mandate:{orders}:ask"
	for _, s := range servers {
		op := s.Client(t)
		servertest.Eventually(t, el.lease, "both candidates receive requests", func() bool {
			return op.PubSubNumSub(t.Context(), requests).Val()[requests] == 2
		})
	}
	a.shutdown()
	if err := b.leadsOrEnds(el.lease / 2); err != nil {
		t.Errorf("the follower did not follow at once: %v", err)
	}
	for _, c := range []*candidate{a, b} {
		if logged := c.Log.Lines("secret-"); len(logged) > 0 {
			t.Errorf("a password was logged: %q", logged)
		}
	}
}

// Client certificates are rotated under a leader, and all connections are cut: that costs no
// term, and no release. A certificate of another CA is named as the reason.
func TestRealCertificateRotation(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	serverCert, serverKey := ca.issue(t, "redis")
	s := servertest.Redis(t, "--tls-cert-file", serverCert, "--tls-key-file", serverKey, "--tls-ca-cert-file", ca.file, "--tls-auth-clients", "yes")
	op := s.Client(t, func(o *redis.Options) { o.TLSConfig = ca.client(t) })
	files := t.TempDir()
	cert, key := filepath.Join(files, "cert"), filepath.Join(files, "key")
	show := func(ca *authority, name string) {
		c, k := ca.issue(t, name)
		for from, to := range map[string]string{c: cert, k: key} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, to, string(b))
		}
	}
	address := "rediss://" + s.Addr() + "?" + url.Values{"ca_file": {ca.file}, "cert_file": {cert}, "key_file": {key}}.Encode()
	show(ca, "client-0")
	el := newElectorate(t)
	el.lease = 3 * lease // after a cut, a renewal may fail once for each idle connection
	a := el.join("a", open(t, address))
	_, term := el.next(0, el.lease+slack)
	b := el.join("b", open(t, address))
	el.follow(op)
	for i := range 2 {
		show(ca, fmt.Sprint("client-", i+1))
		for _, kind := range []string{"normal", "pubsub"} {
			if err := op.ClientKillByFilter(t.Context(), "TYPE", kind, "SKIPME", "yes").Err(); err != nil {
				t.Fatal(err)
			}
		}
		el.survives(term, el.lease/2)
	}
	el.follow(op)
	a.shutdown()
	if err := b.leadsOrEnds(el.lease / 2); err != nil {
		t.Error(err)
	}
	show(newAuthority(t), "stranger")
	_, err := electionOf(open(t, address), "orders").Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("with another CA's certificate: %v", err)
	}
}
