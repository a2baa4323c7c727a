package elector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// realLease outlives it that a busy machine lets this process stand still for two seconds: a
// term ends three quarters of a lease after its last renewal, and there is one every quarter.
// The tests wait more than they work, and so they run in parallel.
const realLease = 4 * time.Second

func leaseOf(d time.Duration) func(*elector.Config) {
	return func(cfg *elector.Config) { cfg.Lease = d }
}

// Regression: Close waited for a dial to a hung node, because go-redis' PubSub holds its
// mutex meanwhile.
func TestRealCloseBesideAHungNode(t *testing.T) {
	t.Parallel()
	servers := servertest.RedisN(t, 3)
	servers[2].Hang(t)
	defer servers[2].Wake(t)
	fastest := time.Hour // of three: a busy machine may let one wait
	for range 3 {
		q := realQuorum(t, servers...)
		a := makeCandidate(t, q, "a", leaseOf(realLease)).Begin(nil)
		a.Elected(5 * realLease)
		a.Shutdown()
		b := makeCandidate(t, q, "b", leaseOf(realLease)).Begin(nil)
		b.Elected(realLease)
		b.Shutdown()
		began := time.Now()
		q.Close()
		fastest = min(fastest, time.Since(began))
	}
	if fastest > 200*time.Millisecond {
		t.Errorf("Close took %v", fastest)
	}
}

// Regression: Redis refuses requests of more than ten parts from the unauthenticated with a
// protocol error, not with NOAUTH, so no error named the password, and Run waited for ever.
func TestRealNoPasswordEndsRun(t *testing.T) {
	t.Parallel()
	s := servertest.RedisN(t, 1, "--requirepass", "secret")[0]
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).Begin(nil)
	err := a.EndedOrElected(5 * realLease)
	if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "give the password") {
		t.Errorf("Run returned %v; Check: %v", err, a.Check())
	}
}
