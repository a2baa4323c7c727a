package demo

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// As the root command keeps go-redis quiet in the real program.
func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// Interrupted, the demo ends soon and leaves no goroutine behind. (That all of it happens: TestScripts/demo.) One of
// go-redis' is none: it looks once a second whether its pool was closed.
func TestDemoInterrupted(t *testing.T) {
	const dials = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction(dials))
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	if err := Play(ctx, output.New(&out), slog.New(slog.DiscardHandler)); err == nil {
		t.Errorf("it said that all steps happened:\n%s", &out)
	}
}
