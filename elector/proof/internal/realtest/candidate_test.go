//go:build unix

// Package realtest is the integration tier: the public package elector on real
// servers (servertest) that hang, die, forget, refuse and fail over.
// See CONTRIBUTING.md.
package realtest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

func TestMain(m *testing.M) {
	logging.Disable()
	// These tests wait for leases, and hardly work: two cores run eight of them at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testleak.VerifyTestMain(m)
}

// lease is that of most tests: two seconds, and more on a machine that has just been late to
// run this process. A term outlives it that this process stands still for half a lease: the
// work ends after three quarters of one without a renewal, and there is one every quarter.
var lease = func() time.Duration {
	var late time.Duration
	for range 200 {
		began := time.Now()
		time.Sleep(time.Millisecond)
		late = max(late, time.Since(began))
	}
	return min(max(2*time.Second, 100*late.Round(time.Millisecond)), 4*time.Second)
}()

// slack is what a small and busy machine may take on top of what is promised.
const slack = 15 * time.Second

const (
	lockKey       = "mandate:{orders}:lock"
	eventsChannel = "mandate:{orders}:events"
)

var (
	must       = servertest.Must
	open       = testcluster.Open
	electionOf = testcluster.ElectionOf
	observe    = testcluster.Observe
	wantReason = testcluster.WantReason
)

// electorate is all candidates of one election. It holds what must be so
// whatever happens to the servers: tokens grow, and never two valid terms.
type electorate struct {
	t     testing.TB
	lease time.Duration

	mu       sync.Mutex
	all      []*candidate
	highest  uint64
	overlaps int
	forgives bool // the deployment does not promise "never two": see README
}

func newElectorate(t testing.TB) *electorate {
	el := &electorate{t: t, lease: lease}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				el.look()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		if el.overlaps > 0 && !el.forgives {
			t.Errorf("two valid terms at once, seen %d times", el.overlaps)
		}
	})
	return el
}

// look counts pairs of valid terms. The first is asked again after the second,
// so that a handover in between is not taken for an overlap.
func (el *electorate) look() {
	el.mu.Lock()
	defer el.mu.Unlock()
	for i, a := range el.all {
		for _, b := range el.all[i+1:] {
			if one, two := a.Term(), b.Term(); one != nil && two != nil && one.Valid() {
				el.overlaps++
			}
		}
	}
}

func (el *electorate) begun(term *elector.Term) {
	el.mu.Lock()
	defer el.mu.Unlock()
	if term.Token() <= el.highest {
		el.t.Errorf("token %d after %d", term.Token(), el.highest)
	}
	el.highest = max(el.highest, term.Token())
}

// candidate runs from join to the test's end, with work that stops when its context ends.
type candidate struct{ *testcluster.Candidate }

func (el *electorate) join(id string, q *elector.Quorum, change ...func(*elector.Config)) *candidate {
	el.t.Helper()
	c := &candidate{testcluster.NewCandidate(el.t, q, id, append(change, func(cfg *elector.Config) { cfg.Lease = el.lease })...)}
	c.Begin(func(ctx context.Context, term *elector.Term) error {
		el.begun(term)
		<-ctx.Done()
		return nil
	})
	el.mu.Lock()
	el.all = append(el.all, c)
	el.mu.Unlock()
	return c
}

// shutdown ends Run, and wants it to end well and soon.
func (c *candidate) shutdown() {
	c.T.Helper()
	c.Stop()
	if err := c.Ended(slack); err != nil {
		c.T.Fatalf("%s: Run returned %v", c.ID(), err)
	}
}

// next waits for the first valid term with a token above after.
func (el *electorate) next(after uint64, within time.Duration) (*candidate, *elector.Term) {
	el.t.Helper()
	var leader *candidate
	var term *elector.Term
	servertest.Eventually(el.t, within, "a candidate leads with a new token", func() bool {
		el.mu.Lock()
		defer el.mu.Unlock()
		for _, c := range el.all {
			if t := c.Term(); t != nil && t.Token() > after {
				leader, term = c, t
				return true
			}
		}
		return false
	})
	return leader, term
}

// survives wants a term to be valid at every look for d.
func (el *electorate) survives(term *elector.Term, d time.Duration) {
	el.t.Helper()
	for limit := time.Now().Add(d); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if !term.Valid() {
			el.t.Fatalf("the term was lost: %v", term.Err())
		}
	}
}

// contested starts n servers with AOF and two candidates, and returns when one
// of them leads and the other has seen that.
func contested(t testing.TB, n int, args ...string) ([]*servertest.Server, *electorate, *elector.Term) {
	t.Helper()
	servers := servertest.RedisN(t, n, append(servertest.AOF, args...)...)
	el := newElectorate(t)
	el.join("a", open(t, servertest.URLs(servers...)...))
	_, term := el.next(0, el.lease+slack)
	el.join("b", open(t, servertest.URLs(servers...)...))
	el.follow(servers[0].Client(t))
	return servers, el, term
}

// follow waits until all candidates but the leader have learned by a refused claim who leads, and one
// waits for the leader's end. The subscription alone proves neither: a follower subscribes before its
// first claim, and that of the leader ends after it has won.
func (el *electorate) follow(op *redis.Client) {
	el.t.Helper()
	servertest.Eventually(el.t, lease+slack, "the others follow", func() bool {
		el.mu.Lock()
		defer el.mu.Unlock()
		for _, c := range el.all {
			if _, known := c.LastLeader(); !known {
				return false
			}
		}
		return op.PubSubNumSub(el.t.Context(), eventsChannel).Val()[eventsChannel] > 0
	})
}

const startLimit = time.Minute

// sentinels is a master, its replica, and three sentinels that watch them.
type sentinels struct {
	master    *servertest.Server // the first master; a failover does not change this field
	replica   *servertest.Server
	sentinels []*servertest.Server
}

// startSentinels starts a master with a replica, and three sentinels that declare the master dead
// after a second. The replica logs in as the user "repl" and they as "watch", so that a cut between two of them cuts off
// no other client.
func startSentinels(t *testing.T) *sentinels {
	t.Helper()
	login := []string{"--masteruser", "repl", "--masterauth", "repl", "--repl-diskless-sync-delay", "0"}
	d := &sentinels{master: servertest.Redis(t, login...)}
	d.replica = servertest.Redis(t, append(login, "--replicaof", fmt.Sprintf("127.0.0.1 %d", d.master.Port))...)
	for _, s := range []*servertest.Server{d.master, d.replica} {
		s.Do(t, "ACL", "SETUSER", "repl", "on", ">repl", "+psync", "+replconf", "+ping")
		s.Do(t, "ACL", "SETUSER", "watch", "on", ">watch", "~*", "&*", "+@all")
	}
	awaitInfo(t, d.replica, "master_link_status:up", "INFO", "replication")
	for range 3 {
		d.sentinels = append(d.sentinels, d.sentinel(t, "watch"))
	}
	for _, s := range d.sentinels {
		awaitInfo(t, s, "slaves=1,sentinels=3", "INFO", "sentinel")
	}
	return d
}

// sentinel starts one that logs in as that user.
func (d *sentinels) sentinel(t *testing.T, user string) *servertest.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	conf := fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 2\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n"+
		"sentinel auth-user main %s\nsentinel auth-pass main %s\n", d.master.Port, user, user)
	must(t, os.WriteFile(file, []byte(conf), 0o600))
	return servertest.Redis(t, file, "--sentinel")
}

func awaitInfo(t *testing.T, s *servertest.Server, want string, command ...any) {
	t.Helper()
	servertest.Eventually(t, startLimit, want, func() bool {
		return strings.Contains(fmt.Sprint(s.Do(t, command...)), want)
	})
}

func (d *sentinels) url() string {
	return "redis+sentinel://" + d.sentinels[0].Addr() + "?master_name=main&addr=" + d.sentinels[1].Addr() + "&addr=" + d.sentinels[2].Addr()
}

// promoted waits until the sentinels have promoted the replica, and returns it.
func (d *sentinels) promoted(t *testing.T) *servertest.Server {
	t.Helper()
	servertest.Eventually(t, failover, "the replica is promoted", func() bool {
		return strings.Contains(fmt.Sprint(d.replica.Do(t, "INFO", "replication")), "role:master")
	})
	return d.replica
}

// cutReplication makes the replica go stale: its master refuses it until the test ends.
func (d *sentinels) cutReplication(t *testing.T) {
	t.Helper()
	d.master.Do(t, "ACL", "SETUSER", "repl", "off")
	d.master.Do(t, "CLIENT", "KILL", "TYPE", "replica")
}

// cutOff cuts the master off from its replica and from the sentinels, but not from those who log in as another user.
func (d *sentinels) cutOff(t *testing.T) {
	t.Helper()
	d.cutReplication(t)
	d.master.Do(t, "ACL", "SETUSER", "watch", "off")
	d.master.Do(t, "CLIENT", "KILL", "USER", "watch")
	d.master.Do(t, "ACL", "SETUSER", "default", "off") // as whom they could still ask
}

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// cluster is a Redis Cluster of three masters, and then their replicas.
type cluster []*servertest.Server

// startCluster starts a Cluster. A master that does not answer for timeout is replaced.
func startCluster(t *testing.T, timeout time.Duration) (c cluster) {
	t.Helper()
	for range 6 {
		c = append(c, servertest.Redis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(servertest.FreePort(t)),
			"--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10), "--repl-diskless-sync-delay", "0"))
	}
	for i, s := range c {
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range c[1:] {
		port, _ := s.Do(t, "CONFIG", "GET", "cluster-port").(map[any]any)["cluster-port"].(string)
		c[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", s.Port, port)
	}
	for i, master := range c[:3] {
		master.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
	}
	for _, s := range c {
		awaitInfo(t, s, "cluster_known_nodes:6", "CLUSTER", "INFO")
	}
	for i, master := range c[:3] {
		c[3+i].Do(t, "CLUSTER", "REPLICATE", nodeID(t, master))
	}
	for i, s := range c {
		awaitInfo(t, s, "cluster_state:ok", "CLUSTER", "INFO")
		if i >= 3 {
			awaitInfo(t, s, "master_link_status:up", "INFO", "replication")
		}
	}
	return c
}

func (c cluster) url() string {
	u := "redis+cluster://" + c[0].Addr() + "?addr=" + c[1].Addr()
	for _, s := range c[2:] {
		u += "&addr=" + s.Addr()
	}
	return u
}

// owner returns the first master of a slot, and its replica. A failover does not change them.
func (c cluster) owner(slot int64) (master, replica *servertest.Server) {
	i := int(3 * slot / slots)
	if int64(i+1)*slots/3-1 < slot {
		i++
	}
	return c[i], c[3+i]
}

// move moves a slot with its keys from one master to another, step by step as redis-cli does,
// slowly.
func (c cluster) move(t *testing.T, slot int64, from, to *servertest.Server) {
	t.Helper()
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodeID(t, from))
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodeID(t, to))
	for {
		keys, _ := from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
		from.Do(t, "MIGRATE", "127.0.0.1", to.Port, keys[0], 0, 5000)
	}
	for _, s := range []*servertest.Server{to, from, c[0], c[1], c[2]} {
		s.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", nodeID(t, to))
	}
}

func nodeID(t *testing.T, s *servertest.Server) string {
	t.Helper()
	id, _ := s.Do(t, "CLUSTER", "MYID").(string)
	return id
}
