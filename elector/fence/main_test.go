package fence_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	goleak.VerifyTestMain(m)
}

// silence keeps go-redis, which prints every failed dial to stderr, out of the
// tests' output.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
