package shard

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

// silent drops what go-redis logs of each connection that is refused on purpose.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	testleak.VerifyTestMain(m)
}
