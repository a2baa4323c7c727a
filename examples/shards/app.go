package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

// app is what all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger

	redis     []string
	db        string
	logLevel  string
	withStdin bool
}

func (a *app) prepare(cmd *cobra.Command) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return fmt.Errorf("--log-level %q: use debug, info, warn or error", a.logLevel)
	}
	a.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	logging.Disable() // go-redis prints every failed dial; the electors report what matters
	if a.db == "" {
		a.db = "invoices.db"
	}
	if a.withStdin {
		ctx, cancel := context.WithCancelCause(cmd.Context())
		go func() {
			_, _ = io.Copy(io.Discard, a.stdin)
			cancel(errors.New("the parent has ended"))
		}()
		cmd.SetContext(ctx)
	}
	return nil
}

func (a *app) urls() []string {
	if len(a.redis) > 0 {
		return a.redis
	}
	if env := os.Getenv("MANDATE_REDIS"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{"redis://127.0.0.1:6379"}
}

func (a *app) withDatabase(cmd *cobra.Command, f func(context.Context, *database) error) error {
	db, err := openDatabase(cmd.Context(), a.db)
	if err != nil {
		return err
	}
	defer db.Close()
	return f(cmd.Context(), db)
}
