package demo

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// As the root command keeps go-redis quiet in the real program. Not in each test: connections
// of the one before may still look at it.
func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// The demo happens, in order, and leaves nothing behind.
func TestDemo(t *testing.T) {
	defer noLeaks(t)()
	var out bytes.Buffer
	began := time.Now()
	err := Play(t.Context(), output.New(&out), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if took := time.Since(began); took > Limit {
		t.Errorf("it took %v", took)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("colours in a pipe:\n%s", &out)
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(line)) > 81 {
			t.Errorf("a line is longer than 80 columns: %s", line)
		}
	}
}

// Interrupted, the demo ends soon and leaves nothing behind.
func TestDemoInterrupted(t *testing.T) {
	defer noLeaks(t)()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	if err := Play(ctx, output.New(&out), slog.New(slog.DiscardHandler)); err == nil {
		t.Errorf("it said that all steps happened:\n%s", &out)
	}
}

// noLeaks looks for goroutines that the demo left behind. One of go-redis' is
// none: it looks once a second whether its pool was closed.
func noLeaks(t *testing.T) func() {
	before := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
	}
}
