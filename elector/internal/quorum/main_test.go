package quorum

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

// TestMain keeps go-redis from printing every refused connection.
func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}
