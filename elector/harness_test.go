package elector_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// The cluster in memory, under short names.
type (
	cluster   = testcluster.Cluster
	candidate = testcluster.Candidate
	node      = testredis.Node
	fault     = testredis.Fault
	call      = testredis.Call
)

const (
	shortLease = testcluster.Lease
	lockKey    = testcluster.LockKey
	fenceKey   = testcluster.FenceKey
	tick       = testcluster.Tick
	wire       = testredis.Wire
)

var (
	frozen = testredis.Frozen
	cut    = testredis.Cut
	down   = testredis.Down

	must          = servertest.Must
	bubble        = testcluster.Bubble
	makeCandidate = testcluster.NewCandidate
	open          = testcluster.Open
	electionOf    = testcluster.ElectionOf
	observe       = testcluster.Observe
	first         = testcluster.First
	others        = testcluster.Others
	eventually    = testcluster.Eventually
	wantReason    = testcluster.WantReason
)

// sub runs f with n nodes in a bubble of a subtest.
func sub(t *testing.T, name string, n int, f func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, n, f) })
}

// leading starts a candidate that wins the first election.
func leading(c *cluster, id string, change ...func(*elector.Config)) (*candidate, *elector.Term) {
	c.T.Helper()
	a := c.Start(id, change...)
	return a, a.Elected(3 * shortLease)
}

// newer wants a term to have a higher token than one before it.
func newer(t testing.TB, next, before *elector.Term) {
	t.Helper()
	if next.Token() <= before.Token() {
		t.Errorf("token %d after %d", next.Token(), before.Token())
	}
}

// continues wants a term not to have ended.
func continues(t testing.TB, term *elector.Term) {
	t.Helper()
	if !term.Valid() {
		t.Errorf("the term ended: %v", term.Err())
	}
}

// campaigned is the term that a candidate campaigns for.
func campaigned(t testing.TB, c *candidate) *elector.Term {
	t.Helper()
	term, err := c.Campaign(t.Context())
	must(t, err)
	return term
}

// quorumOf is a quorum on these clients.
func quorumOf(t testing.TB, clients ...redis.UniversalClient) *elector.Quorum {
	t.Helper()
	q, err := elector.NewQuorum(clients...)
	must(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// stopsAfter is work that takes so long to stop.
func stopsAfter(d time.Duration) elector.Work {
	return func(ctx context.Context, _ *elector.Term) error {
		<-ctx.Done()
		time.Sleep(d)
		return nil
	}
}

// realQuorum has connections of its own.
func realQuorum(t testing.TB, servers ...*servertest.Server) *elector.Quorum {
	t.Helper()
	return open(t, servertest.URLs(servers...)...)
}

// eventIn is the event that a message of the events channel, or an entry of the history, holds.
func eventIn(s string) (ev elector.Event, err error) {
	err = json.Unmarshal([]byte(s), &ev)
	return ev, err
}

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child() // a process of its own, for tests of what ends one
		return
	}
	logging.Disable()
	// The parallel tests are on real servers, and wait more than they work.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testleak.VerifyTestMain(m)
}
