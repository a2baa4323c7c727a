package elector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest/servertest"
)

// "No channel rights: the election works by PTTL, and says so."
func TestRealNoRightToSubscribeIsLogged(t *testing.T) {
	s := servertest.RedisN(t, 1)[0]
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">pw", "~mandate:*", "+@all", "resetchannels")
	q, err := elector.Open("redis://worker:pw@" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	makeCandidate(t, q, "a", leaseOf(realLease)).run(nil).elected(5 * realLease)
	b := makeCandidate(t, q, "b", leaseOf(realLease)).run(nil) // it waits: a leader has nothing to hear
	b.quiet(2 * realLease)
	if lines := b.log.lines("WARN"); len(lines) != 1 || !strings.Contains(lines[0], "NOPERM") {
		t.Errorf("want one line that says so, got %q", lines)
	}
}

// Who may not hear the answers is told so before anybody is asked for anything: a
// leader would step down, and nobody would know.
func TestRealOperatorWhoCannotSubscribeIsRefused(t *testing.T) {
	s := servertest.Redis(t)
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).run(nil)
	a.elected(5 * realLease)
	s.Do(t, "ACL", "SETUSER", "operator", "on", ">pw", "~mandate:*", "&mandate:*", "+@all", "-subscribe")
	q, err := elector.Open("redis://operator:pw@" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	all, err := electionOf(q, "orders").Candidates(t.Context())
	if !errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "lacks a right") {
		t.Errorf("Candidates: %v, %v", all, err)
	}
	if _, err := electionOf(q, "orders").StepDown(t.Context(), ""); !errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "lacks a right") {
		t.Errorf("Resign: %v", err)
	}
	if !a.IsLeader() {
		t.Error("the leader has stepped down unheard")
	}
}

// A refused SET of the hint (next) must not hide who holds the lock.
func TestRealOutOfMemoryFollowersSeeTheLeader(t *testing.T) {
	s := servertest.RedisN(t, 1)[0]
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).run(nil)
	a.elected(5 * realLease)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b := makeCandidate(t, realQuorum(t, s), "b", leaseOf(realLease)).run(nil)
	b.quiet(2 * realLease)
	if err := b.Check(); err != nil {
		t.Errorf("a follower that sees a leader: %v", err)
	}
}

// Close waits for a dial to a hung node: go-redis' PubSub holds its mutex meanwhile.
func TestRealCloseBesideAHungNode(t *testing.T) {
	servers := servertest.RedisN(t, 3)
	servers[2].Hang(t)
	defer servers[2].Wake(t)
	q := realQuorum(t, servers...)
	a := makeCandidate(t, q, "a", leaseOf(realLease)).run(nil)
	a.elected(5 * realLease)
	a.shutdown()
	b := makeCandidate(t, q, "b", leaseOf(realLease)).run(nil)
	b.elected(realLease)
	b.shutdown()
	began := time.Now()
	q.Close()
	if d := time.Since(began); d > 200*time.Millisecond {
		t.Errorf("Close took %v", d)
	}
}

// Redis refuses requests of more than ten parts from the unauthenticated with a
// protocol error, not with NOAUTH: nothing says what to mend, and Run waits for ever.
func TestRealNoPasswordEndsRun(t *testing.T) {
	s := servertest.RedisN(t, 1, "--requirepass", "secret")[0]
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).run(nil)
	err := a.endedOrElected(5 * realLease)
	if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "give the password") {
		t.Errorf("Run returned %v; Check: %v", err, a.Check())
	}
}
