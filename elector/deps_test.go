package elector_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
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
	q, err := elector.Open("redis://" + m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	a := makeCandidate(t, q, "a").Begin(nil)
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
