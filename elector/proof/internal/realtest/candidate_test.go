//go:build unix

// Package realtest is the integration tier: the public package elector on real
// servers (servertest) that hang, die, forget, refuse and fail over.
// See CONTRIBUTING.md.
package realtest_test

import (
	"context"
	"errors"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	// These tests wait for leases, and hardly work: two cores run eight of them at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testleak.VerifyTestMain(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

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
	electionOf = testcluster.ElectionOf
	observe    = testcluster.Observe
)

// electorate is all candidates of one election. It holds what must be so
// whatever happens to the servers: tokens grow, and never two valid terms.
type electorate struct {
	t     testing.TB
	lease time.Duration

	mu       sync.Mutex
	all      []*candidate
	highest  uint64
	terms    []*elector.Term
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
	el.terms = append(el.terms, term)
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

// ends wants a term to end within d, for one of the reasons.
func (el *electorate) ends(term *elector.Term, within time.Duration, reasons ...elector.Reason) *elector.Ended {
	el.t.Helper()
	if _, _, came := testcluster.Await(term.Done(), within); !came {
		el.t.Fatalf("the term did not end within %v", within)
	}
	var ended *elector.Ended
	if !errors.As(term.Err(), &ended) {
		el.t.Fatalf("the term ended with %v", term.Err())
	}
	for _, r := range reasons {
		if ended.Reason == r {
			return ended
		}
	}
	el.t.Fatalf("the term ended with %q (%v), want one of %q", ended.Reason, ended, reasons)
	return nil
}

// open makes connections of a candidate's own.
func open(t testing.TB, urls ...string) *elector.Quorum {
	t.Helper()
	q, err := elector.Open(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func urlsOf(servers []*servertest.Server) []string {
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	return urls
}

// contested starts n servers with AOF and two candidates, and returns when one
// of them leads and the other has seen that.
func contested(t testing.TB, n int, args ...string) ([]*servertest.Server, *electorate, *elector.Term) {
	t.Helper()
	servers := servertest.RedisN(t, n, append(servertest.AOF, args...)...)
	el := newElectorate(t)
	el.join("a", open(t, urlsOf(servers)...))
	_, term := el.next(0, el.lease+slack)
	el.join("b", open(t, urlsOf(servers)...))
	follows(t, servers[0].Client(t))
	return servers, el, term
}

// follows waits until a candidate waits for the leader's end: it has been told
// by a refused claim who leads.
func follows(t testing.TB, op *redis.Client) {
	t.Helper()
	servertest.Eventually(t, lease+slack, "somebody follows", func() bool {
		return op.PubSubNumSub(t.Context(), eventsChannel).Val()[eventsChannel] > 0
	})
}
