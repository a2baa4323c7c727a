// Package cli has what the command lines of the example programs share.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// Logger returns a logger that writes to w from the given level on. It also silences the logger of
// go-redis, which prints every failed dial: the electors and the loops of the examples report what
// matters.
func Logger(w io.Writer, level string) (*slog.Logger, error) {
	var from slog.Level
	if err := from.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)
	}
	logging.Disable()
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: from})), nil
}

// WhileOpen returns a context that also ends when stdin does. Otherwise a child would outlive a
// parent that was killed.
func WhileOpen(ctx context.Context, stdin io.Reader) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel(errors.New("the parent has ended"))
	}()
	return ctx
}

// RedisURLs returns the URLs of --redis, or else of MANDATE_REDIS, or else that of a Redis on this
// machine.
func RedisURLs(given []string) []string {
	if len(given) > 0 {
		return given
	}
	if env := os.Getenv("MANDATE_REDIS"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{"redis://127.0.0.1:6379"}
}

// Pause sleeps for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
