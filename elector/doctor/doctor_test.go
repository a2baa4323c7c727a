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
