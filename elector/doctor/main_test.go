package doctor_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}
