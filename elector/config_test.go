package elector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
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
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
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
		"longest lease":          {elector.Config{Election: "e", Lease: 24 * time.Hour}, nil},
		"a slash in the id":      {elector.Config{Election: "e", ID: "pod/a/1"}, nil},
		"no election":            {elector.Config{}, []string{"Election is empty: give it a value"}},
		"names too long":         {elector.Config{Election: long, ID: long, Advertise: long + long}, []string{"Election is 201 bytes", "ID is 201 bytes", "Advertise is 402 bytes", "at most 256"}},
		"hash tags":              {elector.Config{Election: "a{b}"}, []string{`Election is "a{b}"`, "Cluster slot"}},
		"white space":            {elector.Config{Election: "a b", ID: "a\tb", Advertise: "a\u00a0b"}, []string{`Election is "a b"`, "ID is", "Advertise is"}},
		"not UTF-8":              {elector.Config{Election: "e", ID: "a\xff"}, []string{"ID is"}},
		"lease too short":        {elector.Config{Election: "e", Lease: 49 * time.Millisecond}, []string{"Lease is 49ms: choose between 50ms and 24h0m0s"}},
		"lease too long":         {elector.Config{Election: "e", Lease: 24*time.Hour + time.Millisecond}, []string{"choose between"}},
		"a fraction of a ms":     {elector.Config{Election: "e", Lease: time.Second + time.Microsecond}, []string{"whole milliseconds"}},
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
		"negative means none": {elector.Config{Election: "e", DrainTimeout: -1, Cooldown: -1, MaxTerm: -1}, nil},
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
				if !strings.Contains(err.Error(), want) {
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
	if err := zero.Close(); err != nil {
		t.Error(err)
	}
}

func TestConfigDefaults(t *testing.T) {
	q := newQuorum(t, "127.0.0.1:1")
	a, err := elector.New(q, elector.Config{Election: "e"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := elector.New(q, elector.Config{Election: "e"})
	if err != nil {
		t.Fatal(err)
	}
	if a.ID() == "" || a.ID() == b.ID() {
		t.Errorf("ids %q and %q", a.ID(), b.ID())
	}
	if a.IsLeader() || a.Term() != nil {
		t.Error("leads without having run")
	}
	if err := a.Resign(t.Context()); err != nil {
		t.Errorf("Resign without a term: %v", err)
	}
	if err := a.Check(); err == nil || !strings.Contains(err.Error(), "Run is not running") {
		t.Errorf("Check without Run: %v", err)
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

func TestOpenMalformedURLs(t *testing.T) {
	for name, tc := range map[string]struct{ url, want string }{
		"empty":              {"", "redis://"}, // access.Parse has more
		"bad database":       {"redis://u:hunter2@h:6379/abc", "database"},
		"bad option":         {"redis://u:hunter2@h:6379/?max_retries=many", "max_retries"},
		"unknown option":     {"redis://u:hunter2@h:6379/?nonsense=1", "nonsense"},
		"bad port":           {"redis://u:hunter2@h:port", "port"},
		"control characters": {"redis://u:hunter2\n@h", "a blank"},
		"no master":          {"redis+sentinel://u:hunter2@h:26379", "master_name"},
		"bad addr":           {"redis+cluster://u:hunter2@h:7000/?dial_timeout=x", "dial_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := elector.Open(tc.url)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), "URL 1") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q and which URL", err, tc.want)
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), "hunter") {
					t.Errorf("error %q shows the password", e)
				}
			}
		})
	}
	_, err := elector.Open("redis://a:1", "", "http://b")
	if err == nil || !strings.Contains(err.Error(), "URL 2") || !strings.Contains(err.Error(), "URL 3") {
		t.Errorf("not all problems at once: %v", err)
	}
	if _, err := elector.Open("redis+sentinel://h?master_name=m", "i:26379", "j:26379/0?master_name=m"); err == nil || strings.Count(err.Error(), "as &addr=host:port") != 2 {
		t.Errorf("sentinels that would be votes: %v", err)
	}
	if _, err := elector.Open("redis://h", "redis://i", "h:6379"); err == nil || !strings.Contains(err.Error(), "h:6379 is listed twice") {
		t.Errorf("the same server in two notations: %v", err)
	}
	if _, err := elector.Open("redis://h:1", "redis://h:2", "redis://h:1/3"); err == nil || !strings.Contains(err.Error(), "h:1 is listed twice") {
		t.Errorf("the same server twice: %v", err)
	}
}

func TestOpenGoodURLs(t *testing.T) {
	for _, url := range []string{
		"redis://127.0.0.1:6379", "redis://u:p@127.0.0.1:6379/2?read_timeout=1s", "rediss://127.0.0.1:6379", "unix:///run/redis.sock",
		"redis+sentinel://127.0.0.1:26379?master_name=m&addr=127.0.0.2:26379", "redis+cluster://127.0.0.1:7000?addr=127.0.0.1:7001",
	} {
		q, err := elector.Open(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := q.Close(); err != nil {
			t.Errorf("%s: Close: %v", url, err)
		}
		if err := q.Close(); err != nil {
			t.Errorf("%s: second Close: %v", url, err)
		}
	}
}
