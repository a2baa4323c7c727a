package doctor_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

var must = servertest.Must

// What a real server tells: nothing is wrong with it but its persistence, and a
// user without INFO and CONFIG only learns less.
func TestExamineReal(t *testing.T) {
	s := servertest.RedisN(t, 1)[0]
	levels := func(url string) map[string]doctor.Level {
		findings, err := doctor.Examine(t.Context(), testcluster.Open(t, url), doctor.Config{})
		must(t, err)
		all := map[string]doctor.Level{}
		for _, f := range findings {
			all[f.Check] = f.Level
			if f.Check == "version" && f.Level != doctor.LevelUnknown {
				t.Logf("the server is %s", f.Found)
				if want := servertest.Version(t); f.Found != want {
					t.Errorf("version names %q, want %q", f.Found, want)
				}
			}
			if f.Level == doctor.LevelFail {
				t.Errorf("%+v", f)
			}
		}
		return all
	}
	all := levels("redis://" + s.Addr())
	for check, want := range map[string]doctor.Level{
		"persistence": doctor.LevelWarn, "rights": doctor.LevelOK, "messages": doctor.LevelOK, "version": doctor.LevelOK,
		"eviction": doctor.LevelOK, "failover": doctor.LevelOK, "majority": doctor.LevelOK,
	} {
		if all[check] != want {
			t.Errorf("%s is %q, want %s", check, all[check], want)
		}
	}
	if n, err := s.Client(t).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("it left %d keys, %v", n, err)
	}
	s.Do(t, "ACL", "SETUSER", "poor", "on", ">x", "~mandate:*", "&mandate:*", "+@all", "-info", "-config")
	all = levels("redis://poor:x@" + s.Addr())
	for _, check := range []string{"version", "failover", "persistence", "eviction"} {
		if all[check] != doctor.LevelUnknown {
			t.Errorf("without the right %s is %q", check, all[check])
		}
	}
}

// What can't be examined is an error; a Redis that is away is a finding.
func TestExamineRefusesWhatCanNotBe(t *testing.T) {
	q := testcluster.Open(t, "redis://127.0.0.1:1")
	for name, try := range map[string]func() error{
		"no Quorum":       func() error { _, err := doctor.Examine(t.Context(), nil, doctor.Config{}); return err },
		"an empty Quorum": func() error { _, err := doctor.Examine(t.Context(), &elector.Quorum{}, doctor.Config{}); return err },
		"a name":          func() error { _, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "a b"}); return err },
		"a prefix":        func() error { _, err := doctor.Examine(t.Context(), q.Namespace("a{b"), doctor.Config{}); return err },
		"a lease too short": func() error {
			_, err := doctor.Examine(t.Context(), q, doctor.Config{Lease: time.Millisecond})
			return err
		},
		"a negative lease": func() error { _, err := doctor.Examine(t.Context(), q, doctor.Config{Lease: -time.Second}); return err },
	} {
		if err := try(); err == nil {
			t.Errorf("%s that can't be was accepted", name)
		}
	}
	findings, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders"})
	if err != nil || findings[0].Level != doctor.LevelFail {
		t.Errorf("a Redis that is away: %+v, %v", findings, err)
	}
}

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}
