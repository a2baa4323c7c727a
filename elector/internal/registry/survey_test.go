package registry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

func TestElections(t *testing.T) {
	var clients []redis.UniversalClient
	for i := range 3 {
		m := miniredis.RunT(t)
		for _, key := range []string{"a*b:{one}:fence", "a*b:{one}:lock", "a*b:{paused}:pause", "axb:{no}:fence", "a*b:{}:fence2", "a*b:{no}:pauses", "other"} {
			_ = m.Set(key, "1")
		}
		_ = m.Set("a*b:{"+strings.Repeat("x", i+1)+"}:fence", "1")
		c := redis.NewClient(&redis.Options{Addr: m.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	// Candidates that have never been able to campaign: no key, but subscriptions.
	sub := clients[1].Subscribe(t.Context(), "a*b:{new}:roll", "a*b:{no}:roll:1", "a*b:{no}:rolls", "a*b:{no}:ask", "axb:{no}:roll",
		"a*b:{}:roll", "a*b:{n}o}:roll", "a*b:{n o}:roll", "a*b:{"+strings.Repeat("n", protocol.MaxName+1)+"}:roll")
	t.Cleanup(func() { _ = sub.Close() })
	for range 9 {
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ns, err := quorum.Open(clients)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	for most, wantIdle := range map[int][]string{10: {"x", "xx", "xxx"}, 6: {"x", "xx", "xxx"}, 5: {"x", "xx"}, 3: nil} {
		used, idle, errs := Elections(t.Context(), ns, "a*b", most, time.Minute)
		if want := []string{"new", "one", "paused"}; !slices.Equal(used, want) || !slices.Equal(idle, wantIdle) {
			t.Errorf("of at most %d: %q are used, %q idle", most, used, idle)
		}
		for _, err := range errs {
			if most >= 6 && err != nil || most < 6 && (err == nil || !strings.Contains(err.Error(), "are left out")) {
				t.Errorf("of at most %d: %v", most, err)
			}
		}
	}
	used, idle, errs := Elections(t.Context(), ns, "a*b", 2, time.Minute)
	if len(used) != 2 || len(idle) != 0 || errs[0] == nil && errs[1] == nil && errs[2] == nil {
		t.Errorf("%q, %q, %v: the bound is not kept, or not said", used, idle, errs)
	}
}
