package elector_test

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child() // a process of its own, for tests of what ends one
		return
	}
	redis.SetLogger(silence{})
	goleak.VerifyTestMain(m)
}

// silence keeps go-redis, which prints every failed dial to stderr, out of the
// tests' output.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
