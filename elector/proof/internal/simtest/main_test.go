package simtest

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9"
)

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// TestMain keeps go-redis from printing every refused connection. miniredis makes a Lua
// state for every script: less collecting gives more virtual hours.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
