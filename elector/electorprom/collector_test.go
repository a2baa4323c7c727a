package electorprom_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorprom"
	"github.com/mandate-dev/mandate/elector/electortest"
	clocks "github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

var must = servertest.Must

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

const lease = testcluster.Lease

func candidate(t *testing.T, id string, q *elector.Quorum, change ...func(*elector.Config)) *testcluster.Candidate {
	t.Helper()
	return testcluster.NewCandidate(t, q, id, append(change, func(cfg *elector.Config) { cfg.Cooldown = time.Second })...)
}

// scrape returns every series by its name and, in braces, its labels beside the
// election.
func scrape(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	must(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			var others []string
			for _, l := range m.GetLabel() { // by name
				if want := map[string]string{"election": "orders", "prefix": "mandate"}[l.GetName()]; want == "" {
					others = append(others, l.GetValue())
				} else if l.GetValue() != want {
					t.Errorf("%s has the %s %q", name, l.GetName(), l.GetValue())
				}
			}
			if len(others) > 0 {
				name += "{" + strings.Join(others, ",") + "}"
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestCollector(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		var probe electortest.Probe
		e := candidate(t, "a", r.Quorum("a"), func(cfg *elector.Config) {
			cfg.Probe, cfg.ProbeSettings = &probe, health.Settings{Failures: 1}
		})
		c := electorprom.New(e.Elector)
		want := func(when string, values map[string]float64) {
			t.Helper()
			got := scrape(t, c)
			for name, v := range values {
				if g, ok := got[name]; !ok || g != v {
					t.Errorf("%s: %s is %v (there: %v), want %v", when, name, g, ok, v)
				}
			}
		}
		want("before anything runs", map[string]float64{
			"mandate_is_leader": 0, "mandate_token": 0, "mandate_lease_left_seconds": 0, "mandate_lease_seconds": 10, "mandate_able": 0,
			"mandate_leader_known": 0, "mandate_leaderless_seconds_total": 0, "mandate_elections_won_total": 0, "mandate_leader_changes_total": 0,
			"mandate_overruns_total": 0, "mandate_step_downs_total{unhealthy}": 0,
			"mandate_step_downs_total{expired}": 0, "mandate_step_downs_total{shutdown}": 0,
		})

		warp := &clocks.Warp{}
		ctx, cancel := context.WithCancel(clocks.WithClock(context.Background(), clocks.NewClock(warp)))
		var wg sync.WaitGroup
		t.Cleanup(func() { cancel(); wg.Wait() })
		wg.Go(func() { _ = c.Run(ctx) })
		time.Sleep(20 * time.Second)
		if got := scrape(t, c)["mandate_leaderless_seconds_total"]; got < 19 || got > 20 {
			t.Errorf("after 20 s without anybody: %v s without a leader", got)
		}
		e.BeginIn(ctx, nil)
		testcluster.Eventually(t, 3*lease, "it leads", e.IsLeader)
		time.Sleep(time.Millisecond)
		token := e.Term().Token()
		warp.Wall.Add(-int64(time.Hour)) // a step of the wall clock changes nothing
		left := e.Term().Left().Seconds()
		if left <= 0 || left > lease.Seconds() {
			t.Errorf("%v s left of a lease of %v", left, lease)
		}
		want("leading", map[string]float64{
			"mandate_is_leader": 1, "mandate_token": float64(token), "mandate_lease_left_seconds": left, "mandate_able": 1, "mandate_leader_known": 1,
			"mandate_elections_won_total": 1, "mandate_leader_changes_total": 1,
		})
		without := scrape(t, c)["mandate_leaderless_seconds_total"]
		time.Sleep(lease)
		got := scrape(t, c)
		if took := got["mandate_renewal_seconds"]; took != got["mandate_renewals_total{confirmed}"] {
			t.Errorf("%v renewals have a time, %v were confirmed", took, got["mandate_renewals_total{confirmed}"])
		}
		if got["mandate_renewals_total{confirmed}"] < 3 || got["mandate_renewals_total{unconfirmed}"] != 0 ||
			got["mandate_requests_total{redis.test:6379,answered}"] < 4 || got["mandate_requests_total{redis.test:6379,failed}"] != 0 ||
			got["mandate_probe_healthy{candidate}"] != 1 || got["mandate_probe_runs_total{candidate,passed}"] < 5 {
			t.Errorf("after a lease of leading: %v", got)
		}

		// A pause is seen by the leader, and its end.
		must(t, e.Election().Pause(ctx, 0, "migration"))
		time.Sleep(lease)
		want("paused", map[string]float64{"mandate_paused": 1, "mandate_is_leader": 1})
		must(t, e.Election().Resume(ctx))
		time.Sleep(lease)
		want("resumed", map[string]float64{"mandate_paused": 0})

		probe.Fail(errors.New("no disk"))
		testcluster.Eventually(t, 3*lease, "it has stepped down", func() bool { return !e.IsLeader() })
		time.Sleep(5 * time.Second)
		want("unhealthy", map[string]float64{
			"mandate_is_leader": 0, "mandate_token": 0, "mandate_lease_left_seconds": 0, "mandate_able": 0, "mandate_leader_known": 0,
			"mandate_step_downs_total{unhealthy}": 1, "mandate_step_downs_total{expired}": 0, "mandate_elections_won_total": 1,
		})
		if got := scrape(t, c)["mandate_leaderless_seconds_total"] - without; got < 4.5 || got > 5.5 {
			t.Errorf("5 s after it stepped down: %v s more without a leader", got)
		}

		// Another candidate counts as a change, not as one won.
		candidate(t, "b", r.Quorum("b")).BeginIn(ctx, nil)
		time.Sleep(lease)
		want("b leads", map[string]float64{
			"mandate_is_leader": 0, "mandate_leader_known": 1, "mandate_elections_won_total": 1, "mandate_leader_changes_total": 2,
		})

		// Redis is gone: b leads no more, and nobody can tell who does, nor whether the pause has been ended.
		must(t, e.Election().Pause(ctx, 0, "migration"))
		time.Sleep(lease)
		heal := r.CutOff()
		time.Sleep(lease + 2*time.Second)
		want("Redis is gone", map[string]float64{"mandate_leader_known": 0, "mandate_paused": 0})
		heal()
		time.Sleep(2 * lease)
		want("Redis is back, and still paused", map[string]float64{"mandate_paused": 1})
		must(t, e.Election().Resume(ctx))
		time.Sleep(2 * lease)
		want("a leader is elected", map[string]float64{"mandate_leader_known": 1})
	})
}

func TestHandler(t *testing.T) {
	e := candidate(t, "a", testcluster.Open(t, "redis://127.0.0.1:1")) // which it does not ask, as it never runs
	w := httptest.NewRecorder()
	electorprom.New(e.Elector).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`mandate_is_leader{election="orders",prefix="mandate"} 0`, `mandate_step_downs_total{election="orders",prefix="mandate",reason="lost"} 0`, "go_goroutines"} {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("%d, without %s:\n%s", w.Code, line, w.Body)
		}
	}
}

// A follower has no work: its probe neither passes nor fails.
func TestWorkProbeOfALeaderOnly(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e := candidate(t, "a", r.Quorum("a"), func(cfg *elector.Config) { cfg.WorkProbe = &electortest.Probe{} })
		c, registry := electorprom.New(e.Elector), prometheus.NewPedanticRegistry()
		registry.MustRegister(c)
		moves := func(when string) { // to another registration, from one in the state before
			t.Helper()
			if _, err := registry.Gather(); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			if !registry.Unregister(c) {
				t.Errorf("%s: it can't be unregistered", when)
			}
			if err := registry.Register(c); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		moves("before it leads")
		if v, ok := scrape(t, c)["mandate_probe_healthy{work}"]; ok {
			t.Errorf("before it leads: %v", v)
		}
		e.Begin(new(elector.Gate).Work)
		r.Lead(e.Elector)
		electortest.Advance(lease)
		if v, ok := scrape(t, c)["mandate_probe_healthy{work}"]; !ok || v != 1 {
			t.Errorf("while it leads: %v, there: %v", v, ok)
		}
		moves("while it leads")
		e.Shutdown()
		if v, ok := scrape(t, c)["mandate_probe_healthy{work}"]; ok {
			t.Errorf("after its term: %v", v)
		}
		moves("after its term")
	})
}

// Two candidates of one election share a registry if each has a label of its own.
func TestTwoCandidatesOnOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, id := range []string{"a", "b"} {
		e := candidate(t, id, testcluster.Open(t, "redis://127.0.0.1:1"))
		prometheus.WrapRegistererWith(prometheus.Labels{"candidate": e.ID()}, registry).MustRegister(electorprom.New(e.Elector))
	}
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "mandate_is_leader" && len(f.GetMetric()) == 2 {
			return
		}
	}
	t.Errorf("not one mandate_is_leader of each: %v", families)
}

// A member's series are there before it runs, and follow what it owns.
func TestMemberSeries(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m, err := shard.New(c.Quorum("a"), shard.Config{Group: "orders", Shards: 12, ID: "a", Lease: lease, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		metrics := electorprom.NewMember(m)
		wants := func(when string, want map[string]float64) {
			t.Helper()
			got := scrape(t, metrics)
			for name, v := range want {
				if found, ok := got[name+"{orders}"]; !ok || found != v {
					t.Errorf("%s: %s is %v (%v), want %v", when, name, found, ok, v)
				}
			}
		}
		none := map[string]float64{
			"mandate_member_shards_owned": 0, "mandate_member_group_shards": 12, "mandate_member_able": 0,
			"mandate_member_lease_left_seconds": 0, "mandate_member_lease_seconds": lease.Seconds(),
		}
		wants("before it runs", none)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- m.Run(ctx, func(ctx context.Context, _ *shard.Term) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(2 * time.Second)
		wants("while it runs", map[string]float64{"mandate_member_shards_owned": 12, "mandate_member_able": 1})
		if left := scrape(t, metrics)["mandate_member_lease_left_seconds{orders}"]; left <= 0 || left > lease.Seconds() {
			t.Errorf("%v s of the leases are left", left)
		}
		stop()
		must(t, <-done)
		wants("after its end", none)
	})
}
