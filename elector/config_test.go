package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/health"
)

func newQuorum(t testing.TB, addrs ...string) *elector.Quorum {
	t.Helper()
	var clients []redis.UniversalClient
	for _, a := range addrs {
		c := redis.NewClient(&redis.Options{Addr: a})
		defer c.Close()
		clients = append(clients, c)
	}
	return quorumOf(t, clients...)
}

func TestConfigAtItsBounds(t *testing.T) {
	q := newQuorum(t, "127.0.0.1:1")
	long := strings.Repeat("x", 201)
	for name, tc := range map[string]struct {
		cfg  elector.Config
		want []string // all of them, nothing when it is fine
	}{
		"least":                  {elector.Config{Election: "e"}, nil},
		"longest name":           {elector.Config{Election: long[:200], ID: long[:200]}, nil},
		"shortest lease":         {elector.Config{Election: "e", Lease: 50 * time.Millisecond}, nil},
		"a slash in the id":      {elector.Config{Election: "e", ID: "pod/a/1"}, nil},
		"no election":            {elector.Config{}, []string{"Election is empty: give it a value"}},
		"names too long":         {elector.Config{Election: long, ID: long, Advertise: long + long}, []string{"Election is 201 bytes", "ID is 201 bytes", "Advertise is 402 bytes", "at most 256"}},
		"hash tags":              {elector.Config{Election: "a{b}"}, []string{`Election is "a{b}"`, "none of the characters {} is allowed"}},
		"white space":            {elector.Config{Election: "a b", ID: "a\tb", Advertise: "a\u00a0b"}, []string{`Election is "a b"`, "ID is", "Advertise is"}},
		"not UTF-8":              {elector.Config{Election: "e", ID: "a\xff"}, []string{"ID is"}},
		"lease too short":        {elector.Config{Election: "e", Lease: 49 * time.Millisecond}, []string{"Lease is 49ms: choose between 50ms and 24h0m0s"}},
		"no room for 2 renewals": {elector.Config{Election: "e", Lease: time.Second, StopMargin: 500 * time.Millisecond}, []string{"no room for two renewals", "make the lease longer"}},
		"negative": {elector.Config{
			Election: "e", Lease: -1, StopMargin: -1,
		}, []string{"Lease is -1ns", "StopMargin is -1ns"}},
		"a day": {elector.Config{Election: "e", DrainTimeout: 24 * time.Hour, Cooldown: 24 * time.Hour, MaxTerm: 24 * time.Hour}, nil},
		"more than a day": {
			elector.Config{Election: "e", DrainTimeout: 24*time.Hour + 1, Cooldown: 24*time.Hour + 1, MaxTerm: 1<<63 - 1},
			[]string{"DrainTimeout is 24h0m0.000000001s: give at most 24h0m0s", "Cooldown is", "MaxTerm is"},
		},
		"no unit": {
			elector.Config{Election: "e", Lease: 10, StopMargin: 2, DrainTimeout: 5, Cooldown: 30, MaxTerm: 60},
			[]string{"Lease is 10ns: give at least 1ms (was the unit forgotten", "StopMargin is 2ns", "DrainTimeout is 5ns", "Cooldown is 30ns", "MaxTerm is 60ns"},
		},
		"negative means none":        {elector.Config{Election: "e", DrainTimeout: -1, Cooldown: -1, MaxTerm: -1}, nil},
		"no unit of the lease alone": {elector.Config{Election: "e", Lease: 10}, []string{"config: Lease is 10ns: give at least 1ms (was the unit forgotten, as in 5 instead of 5*time.Second?)$"}},
		"what does nothing":          {elector.Config{Election: "e", Priority: 5, MaxTerm: time.Second}, []string{"Priority is 5, which does nothing", "MaxTerm is 1s: give at least a lease (10s)"}},
		"a nil heartbeat":            {elector.Config{Election: "e", WorkProbe: (*health.Heartbeat)(nil)}, []string{"WorkProbe: health: NewRunner: the probe is nil"}},
		"a beat without its unit":    {elector.Config{Election: "e", WorkProbe: health.NewHeartbeat(5)}, []string{"WorkProbe: health: heartbeat has a bound of 5ns"}},
		"probes": {elector.Config{
			Election: "e", ProbeSettings: health.Settings{Interval: -1}, WorkProbeSettings: health.Settings{Failures: -1},
		}, []string{"ProbeSettings: health: Interval is -1ns", "WorkProbeSettings: health: Failures is -1"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := elector.New(q, tc.cfg)
			if len(tc.want) == 0 {
				if err != nil || e == nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error()+"$", want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
	var zero elector.Quorum
	for what, err := range map[string]error{
		"a nil quorum":    second(elector.New(nil, elector.Config{Election: "e"})),
		"a zero quorum":   second(elector.New(&zero, elector.Config{Election: "e"})),
		"its elections":   second(zero.Elections(t.Context())),
		"a zero election": second(new(elector.Election).Status(t.Context())),
		"a zero elector":  second(new(elector.Elector).Campaign(t.Context())),
	} {
		if err == nil || !strings.Contains(err.Error(), "quorum is nil") {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, errors.Join(zero.Close(), (*elector.Quorum)(nil).Close()))
}

func TestConfigDefaults(t *testing.T) {
	q := newQuorum(t, "127.0.0.1:1")
	a, err := elector.New(q, elector.Config{Election: "e"})
	must(t, err)
	b, err := elector.New(q, elector.Config{Election: "e"})
	must(t, err)
	if a.ID() == "" || a.ID() == b.ID() || a.IsLeader() || a.Term() != nil {
		t.Errorf("ids %q and %q, leads %v", a.ID(), b.ID(), a.Term())
	}
	if err := a.Check(); err == nil || !strings.Contains(err.Error(), "Run is not running") {
		t.Errorf("Check without Run: %v", err)
	}
	if err := errors.Join(a.Run(t.Context(), nil), a.Resign(t.Context())); err == nil || !strings.HasSuffix(err.Error(), "work is nil") {
		t.Errorf("Run without work, Resign without a term: %v", err)
	}
}

func TestQuorumOfBadClients(t *testing.T) {
	client := func(addr string) redis.UniversalClient {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { c.Close() })
		return c
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { ring.Close() })
	routed := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, MasterName: "m", RouteRandomly: true})
	t.Cleanup(func() { routed.Close() })
	for name, tc := range map[string]struct {
		clients []redis.UniversalClient
		want    []string
	}{
		"none":         {nil, []string{"no Redis given: name 1, 3 or 5"}},
		"two":          {[]redis.UniversalClient{client("127.0.0.1:1"), client("127.0.0.1:2")}, []string{"even number", "use 1 or 3"}},
		"four":         {[]redis.UniversalClient{client("127.0.0.1:1"), client("127.0.0.1:2"), client("127.0.0.1:3"), client("127.0.0.1:4")}, []string{"use 3 or 5"}},
		"twice":        {[]redis.UniversalClient{client("127.0.0.1:1"), client("127.0.0.1:2"), client("127.0.0.1:1")}, []string{"127.0.0.1:1 is listed twice"}},
		"nil":          {[]redis.UniversalClient{nil}, []string{"client 1: it is nil"}},
		"typed nil":    {[]redis.UniversalClient{(*redis.Client)(nil)}, []string{"client 1: it is nil"}},
		"nil cluster":  {[]redis.UniversalClient{(*redis.ClusterClient)(nil)}, []string{"client 1: it is nil"}},
		"of Sentinel":  {[]redis.UniversalClient{routed}, []string{"client 1: it is a *redis.ClusterClient without addresses", "RouteRandomly", "use redis.NewFailoverClient"}},
		"a ring":       {[]redis.UniversalClient{ring}, []string{"*redis.Ring can't be used", "*redis.ClusterClient"}},
		"all together": {[]redis.UniversalClient{nil, ring, client("127.0.0.1:1"), client("127.0.0.1:1")}, []string{"even number", "client 1", "client 2", "listed twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := elector.NewQuorum(tc.clients...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// What people and scripts ask an election answers within the time that its comment,
// and the help of its command, promises: with all nodes up, one hung, or all.
func TestRequestsOfOperatorsAreBounded(t *testing.T) {
	for name, most := range map[string]time.Duration{
		"Status": 2 * time.Second, "Leader": 2 * time.Second, "History": 3 * time.Second,
		"Elections": 1500 * time.Millisecond, "Candidates": 3 * time.Second, "Pause": 2500 * time.Millisecond,
		"Resume": 2500 * time.Millisecond, "Ticks": 1500 * time.Millisecond, "Examine": 6 * time.Second,
	} {
		for _, hung := range []int{0, 1, 3} {
			sub(t, fmt.Sprintf("%s/%d hung", name, hung), 3, func(t *testing.T, c *cluster) {
				trio(t, c)
				for _, n := range c.Nodes[:hung] {
					n.Set(frozen, "operator")
				}
				q := c.Quorum("operator")
				el := electionOf(q, "orders")
				do := queries(q, el)
				do["Ticks"] = func(ctx context.Context) error { _, err := doctor.Ticks(ctx, el); return err }
				do["Examine"] = func(ctx context.Context) error {
					_, err := doctor.Examine(ctx, q, doctor.Config{Election: "orders"})
					return err
				}
				began := time.Now()
				err := do[name](t.Context())
				// The operator's clock has the wire's time on top, and the scheduler's.
				if took := time.Since(began); took > most+10*time.Millisecond {
					t.Errorf("took %v, want at most %v", took, most)
				}
				if hung == 0 && err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// The table of docs/deploying.md by which a lease is chosen, with the defaults: what an
// outage costs that begins right before a renewal, right after it, or in between.
func TestOutagesThatCostNothing(t *testing.T) {
	for _, l := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for name, o := range map[string]struct {
			fault fault
			lasts time.Duration
		}{
			"refused": {down, l * 42 / 100},
			"hung":    {frozen, l * 42 / 100},
			"lost":    {cut, l * 26 / 100}, // each request has its time until it counts as lost
		} {
			for _, phase := range []int{0, 3, 6, 9} {
				sub(t, fmt.Sprintf("%v, %s, phase %d", l, name, phase), 1, func(t *testing.T, c *cluster) {
					term := c.Start("a", func(cfg *elector.Config) { cfg.Lease = l }).Elected(3 * l)
					time.Sleep(l + time.Duration(phase)*l/40 - 5*time.Millisecond)
					c.Each(o.fault)
					time.Sleep(o.lasts)
					c.Heal()
					time.Sleep(l)
					if !term.Valid() {
						t.Errorf("an outage of %v: %v", o.lasts, term.Err())
					}
				})
			}
		}
	}
}

// The rows on a leader that is cut off: when its work is told to stop, how long it
// has for that, and when another one leads.
func TestSizingOfTheLease(t *testing.T) {
	for _, l := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for phase := range 5 {
			sub(t, fmt.Sprintf("%v, phase %d", l, phase), 1, func(t *testing.T, c *cluster) {
				lease := func(cfg *elector.Config) { cfg.Lease = l }
				term := c.Start("a", lease).Elected(3 * l)
				b := c.Start("b", lease)
				time.Sleep(2*l + time.Duration(phase)*l/20)
				c.Each(frozen, "a")
				began := time.Now()
				for term.Valid() {
					time.Sleep(time.Millisecond)
				}
				told := time.Since(began)
				if most := l*74/100 - 2*time.Millisecond; told > most+2*time.Millisecond {
					t.Errorf("the work was told after %v, want at most %v", told, most)
				}
				after := b.Elected(l).Since().Sub(began)
				if after < l*3/4-l/100 || after > l+20*time.Millisecond {
					t.Errorf("another one led after %v of %v", after, l)
				} else if after-told < l/4 {
					t.Errorf("the work had %v to stop", after-told)
				}
			})
		}
	}
}

// The ticks of many elections are read at each scrape: one request to each node, two more and the marks where there are jobs, and
// a node that hangs delays them no longer than it delays the status.
func TestReadingTicksCostsLittle(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		el := electionOf(c.Quorum("operator"), "orders")
		read := func(jobs, requests int) {
			t.Helper()
			before := c.Nodes[1].Requests()
			began := time.Now()
			all, _ := doctor.Ticks(t.Context(), el)
			if took := time.Since(began); len(all) != jobs || took > 300*time.Millisecond {
				t.Errorf("%d jobs, after %v", len(all), took)
			}
			if got := c.Nodes[1].Requests() - before; got > requests {
				t.Errorf("%d requests for %d jobs", got, jobs)
			}
		}
		_, _ = doctor.Ticks(t.Context(), el) // connects
		read(0, 1)
		once, err := fence.NewOnce(c.Client("worker", 1), el)
		must(t, err)
		for _, job := range []string{"mail", "bills"} {
			must(t, second(once.Take(t.Context(), fence.Tick{Job: job, At: time.Now(), Token: 1})))
		}
		c.Nodes[0].Set(frozen)
		read(2, 4)
	})
}
