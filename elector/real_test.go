package elector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

func TestRealHungMinorityNode(t *testing.T) {
	t.Parallel()
	servers := servertest.RedisN(t, 3)
	a := makeCandidate(t, realQuorum(t, servers...), "a", leaseOf(realLease)).Begin(nil)
	one := a.Elected(5 * realLease)
	b := makeCandidate(t, realQuorum(t, servers...), "b", leaseOf(realLease)).Begin(nil)
	b.Quiet(realLease)
	servers[2].Hang(t)
	defer servers[2].Wake(t)
	b.Quiet(3 * realLease)
	if !one.Valid() {
		t.Fatalf("lost: %v", one.Err())
	}
	began := time.Now()
	a.Stop()
	two := b.Elected(realLease)
	if gap := two.Since().Sub(began); gap > realLease/4 {
		t.Errorf("handover took %v", gap)
	}
	if err := a.Ended(realLease); err != nil {
		t.Error(err)
	}
	// A newcomer that dials the hung node claims as fast.
	d := makeCandidate(t, realQuorum(t, servers...), "d", leaseOf(realLease)).Begin(nil)
	d.Quiet(realLease)
	began = time.Now()
	b.Stop()
	if gap := d.Elected(realLease).Since().Sub(began); gap > realLease/4 {
		t.Errorf("handover to a newcomer took %v", gap)
	}
	servers[2].Wake(t)
	time.Sleep(realLease)
	if err := d.Check(); err != nil || !d.IsLeader() {
		t.Errorf("after the node's return: %v, leads %v", err, d.IsLeader())
	}
}

func TestRealNodeRestartsEmpty(t *testing.T) {
	t.Parallel()
	servers := servertest.RedisN(t, 3)
	a := makeCandidate(t, realQuorum(t, servers...), "a", leaseOf(realLease)).Begin(nil)
	term := a.Elected(5 * realLease)
	b := makeCandidate(t, realQuorum(t, servers...), "b", leaseOf(realLease)).Begin(nil)
	for _, s := range servers {
		s.Restart(t)
		op := s.Client(t)
		eventually(t, realLease, "planted again", func() bool { return op.Exists(t.Context(), lockKey).Val() == 1 })
		b.Quiet(realLease)
		if !term.Valid() {
			t.Fatalf("lost: %v", term.Err())
		}
	}
}

func TestRealPasswordRotated(t *testing.T) {
	t.Parallel()
	s := servertest.RedisN(t, 1)[0]
	// The first candidate has seen the election work from outside, the second has led.
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).Begin(nil)
	one := a.Elected(5 * realLease)
	b := makeCandidate(t, realQuorum(t, s), "b", leaseOf(realLease)).Begin(nil)
	b.Quiet(realLease / 2)
	a.Shutdown()
	term := b.Elected(realLease)
	s.Do(t, "CONFIG", "SET", "requirepass", "new")
	if err := s.Client(t, withPassword("new")).Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	wantReason(t, term, realLease, elector.ReasonExpired)
	time.Sleep(2 * realLease)
	select {
	case <-b.Done:
		t.Fatalf("Run ended: %v", b.Result)
	default:
	}
	if err := b.Check(); err == nil || !strings.Contains(err.Error(), "NOAUTH") && !strings.Contains(err.Error(), "unauthenticated") {
		t.Errorf("Check: %v", err)
	}
	if n := len(b.Log.Lines("cannot campaign")); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if err := s.Client(t, withPassword("new")).ConfigSet(t.Context(), "requirepass", "").Err(); err != nil {
		t.Fatal(err)
	}
	if next := b.Elected(2 * realLease); next.Token() <= term.Token() || next.Token() <= one.Token() {
		t.Errorf("token %d after %d", next.Token(), term.Token())
	}
}

func TestRealWrongPassword(t *testing.T) {
	t.Parallel()
	s := servertest.RedisN(t, 1, "--requirepass", "secret")[0]
	for url, want := range map[string]string{
		"redis://:hunter2@" + s.Addr():       "check user and password",
		"redis://joe:hunter2@" + s.Addr():    "check user and password",
		"redis://default:secret@" + s.Addr(): "",
	} {
		q, err := elector.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		a := makeCandidate(t, q, "a", leaseOf(realLease)).Begin(nil)
		if want == "" {
			a.Elected(5 * realLease)
			continue
		}
		err = a.EndedOrElected(5 * realLease)
		if err == nil || !strings.Contains(err.Error(), elector.ErrPermanent.Error()) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Run returned %v", url, err)
		}
	}
}

// A user that has all rights but the channels.
func TestRealNoRightToSubscribe(t *testing.T) {
	t.Parallel()
	s := servertest.RedisN(t, 1)[0]
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">pw", "~mandate:*", "+@all", "resetchannels")
	start := func(id string) *candidate {
		q, err := elector.Open("redis://worker:pw@" + s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		return makeCandidate(t, q, id, leaseOf(realLease)).Begin(nil)
	}
	a := start("a")
	one := a.Elected(5 * realLease)
	b := start("b")
	b.Quiet(2 * realLease)
	if !one.Valid() {
		t.Fatalf("lost: %v", one.Err())
	}
	a.Shutdown()
	if two := b.Elected(realLease + realLease/4); two.Token() <= one.Token() {
		t.Errorf("token %d after %d", two.Token(), one.Token())
	}
	if err := b.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// Redis is out of memory: SET is refused, PEXPIRE works. A leader stays.
func TestRealOutOfMemory(t *testing.T) {
	t.Parallel()
	s := servertest.RedisN(t, 1)[0]
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).Begin(nil)
	term := a.Elected(5 * realLease)
	b := makeCandidate(t, realQuorum(t, s), "b", leaseOf(realLease)).Begin(nil)
	b.Quiet(realLease / 2)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b.Quiet(3 * realLease)
	if !term.Valid() {
		t.Fatalf("lost: %v", term.Err())
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	time.Sleep(realLease)
	a.Shutdown()
	b.Elected(2 * realLease)
}

func withPassword(pw string) func(*redis.Options) { return func(o *redis.Options) { o.Password = pw } }

// Without the right to subscribe the election works by the PTTL alone, and one warning names
// the right.
func TestRealNoRightToSubscribeIsLogged(t *testing.T) {
	t.Parallel()
	s := servertest.RedisN(t, 1)[0]
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">pw", "~mandate:*", "+@all", "resetchannels")
	q, err := elector.Open("redis://worker:pw@" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	makeCandidate(t, q, "a", leaseOf(realLease)).Begin(nil).Elected(5 * realLease)
	b := makeCandidate(t, q, "b", leaseOf(realLease)).Begin(nil) // it waits: a leader has nothing to hear
	b.Quiet(2 * realLease)
	if lines := b.Log.Lines("WARN"); len(lines) != 1 || !strings.Contains(lines[0], "NOPERM") {
		t.Errorf("want one line that says so, got %q", lines)
	}
}

// An operator who can't receive the answers is refused before any request is published: a
// leader would step down, and the operator would not know.
func TestRealOperatorWhoCannotSubscribeIsRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).Begin(nil)
	a.Elected(5 * realLease)
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

// Regression: a SET of the reservation (next) that is refused for want of memory hid who
// holds the lock, and followers reported an error.
func TestRealOutOfMemoryFollowersSeeTheLeader(t *testing.T) {
	t.Parallel()
	s := servertest.RedisN(t, 1)[0]
	a := makeCandidate(t, realQuorum(t, s), "a", leaseOf(realLease)).Begin(nil)
	a.Elected(5 * realLease)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b := makeCandidate(t, realQuorum(t, s), "b", leaseOf(realLease)).Begin(nil)
	b.Quiet(2 * realLease)
	if err := b.Check(); err != nil {
		t.Errorf("a follower that sees a leader: %v", err)
	}
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
