package simtest

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// TestMain keeps go-redis from printing every refused connection.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	os.Exit(m.Run())
}
