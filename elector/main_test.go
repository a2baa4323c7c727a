package elector_test

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child() // a process of its own, for tests of what ends one
		return
	}
	logging.Disable()
	testleak.VerifyTestMain(m)
}
