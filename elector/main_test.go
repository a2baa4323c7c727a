package elector_test

import (
	"flag"
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
	// The parallel tests are on real servers, and wait more than they work.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testleak.VerifyTestMain(m)
}
