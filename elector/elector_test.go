package elector_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

func TestNoHeavyDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/mandate-dev/mandate/elector", "github.com/mandate-dev/mandate/health").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("go list names %d packages only", len(deps))
	}
	for _, dep := range deps {
		for _, heavy := range []string{
			"prometheus", "protobuf", "miniredis", "gopher-lua", "goleak", "heptiolabs", "cobra", "pflag", "opentelemetry", "google.golang.org/grpc", "sqlmock",
		} {
			if strings.Contains(dep, heavy) {
				t.Errorf("a program that imports elector links %s", dep)
			}
		}
		if dep == "testing" || strings.HasPrefix(dep, "testing/") || strings.HasSuffix(dep, "test") && strings.Contains(dep, "mandate") {
			t.Errorf("a program that imports elector links %s", dep)
		}
	}
}

func TestIsLeaderAllocatesNothing(t *testing.T) {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	a := makeCandidate(t, open(t, "redis://"+m.Addr()), "a").Begin(nil)
	term := a.Elected(time.Minute)
	for name, f := range map[string]func() bool{
		"IsLeader": a.IsLeader, "Valid": term.Valid, "Term": func() bool { return a.Term() == term },
	} {
		if !f() {
			t.Errorf("%s is false", name)
		}
		if n := testing.AllocsPerRun(1000, func() { _ = f() }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Resign(ctx); err != nil && err != context.Canceled { //nolint:errorlint // as documented
		t.Error(err)
	}
}

// A handler that routes to the leader must not wait for Redis. What it is told without
// asking is at most a lease old, names nobody whose term is over, and no stranger's lock.
func TestLastLeader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.Advertise = "a:80" })
		if l, ok := a.LastLeader(); ok {
			t.Errorf("before it runs: %+v", l)
		}
		a.Begin(nil)
		term := a.Elected(3 * shortLease)
		if l, ok := a.LastLeader(); !ok || l.Candidate != "a" || l.Token != term.Token() || l.LeaseLeft <= 0 || l.Since.IsZero() {
			t.Errorf("of itself: %+v, %v", l, ok)
		}
		b := c.Start("b")
		b.Quiet(shortLease)
		want := elector.Leader{Candidate: "a", Incarnation: a.Incarnation(), Advertise: "a:80", Token: term.Token()}
		if l, ok := b.LastLeader(); !ok || l != want {
			t.Errorf("of the other: %+v, %v, want %+v", l, ok, want)
		}

		a.Shutdown()
		b.Elected(shortLease)
		if l, ok := a.LastLeader(); ok {
			t.Errorf("of its own term that is over: %+v", l)
		}
		if l, ok := b.LastLeader(); !ok || l.Candidate != "b" {
			t.Errorf("after the change: %+v, %v", l, ok)
		}

		d := c.Start("d")
		d.Quiet(shortLease)
		b.Shutdown()
		d.Elected(shortLease)
		for _, n := range c.Nodes {
			_ = n.Server().Set(lockKey, "a stranger's")
		}
		wantReason(t, d.Term(), shortLease, elector.ReasonLost)
		d.Quiet(3 * shortLease)
		if l, ok := d.LastLeader(); ok {
			t.Errorf("of a lock that is nobody's: %+v", l)
		}
	})
}

// Close releases the lock whatever its context: a program that ends has ended its context before. A
// term that is over is closed, also for such a caller.
func TestCloseReleasesUnderAnEndedContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term := campaigned(t, a)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := term.Close(ended); err != nil || c.Locks() != 0 {
			t.Errorf("%v, and %d locks are left", err, c.Locks())
		}
		for range 100 {
			if err := term.Close(ended); err != nil {
				t.Fatalf("after its end: %v", err)
			}
		}
	})
}

// Work that resigns with another context than its own waits for itself, but not for ever.
func TestResignWithAForeignContextInsideTheWork(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, got := makeCandidate(t, c.Quorum("a"), "a"), make(chan error, 1)
		a.Begin(func(context.Context, *elector.Term) error {
			got <- a.Resign(context.Background())
			return nil
		}).Elected(3 * shortLease)
		if err, _, came := testcluster.Await(got, shortLease+time.Second); !came || err == nil || !strings.Contains(err.Error(), "its own context") {
			t.Errorf("%v, %v", err, came)
		}
		a.Shutdown()
	})
}

// Whoever resigns does not find the term valid a moment later, while the state machine is busy. What finishes after a planned
// end may go on while the lease is kept, and not beyond the release.
func TestKept(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e, err := elector.New(r.Quorum("a"), elector.Config{Election: "e", ID: "a", Lease: 10 * time.Second, DrainTimeout: 20 * time.Second})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		term, err := e.Campaign(ctx)
		must(t, err)
		if term.Kept() != term.Left() || term.Kept() <= 0 {
			t.Errorf("a term that holds: %v is kept, %v left", term.Kept(), term.Left())
		}
		if term.Resign(); term.Valid() {
			t.Error("after Resign the term is valid")
		}
		<-term.Done()
		time.Sleep(15 * time.Second)
		if term.Left() != 0 || term.Kept() <= 0 {
			t.Errorf("while the work stops: %v is kept, %v left", term.Kept(), term.Left())
		}
		must(t, term.Close(ctx))
		if term.Kept() != 0 || (*elector.Term)(nil).Kept() != 0 {
			t.Errorf("after the release %v is kept", term.Kept())
		}
	})
}
