package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// app has what all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger

	redis     []string
	queue     string
	db        string
	election  string
	logLevel  string
	withStdin bool
}

func (a *app) prepare(cmd *cobra.Command) (err error) {
	if a.log, err = cli.Logger(a.stderr, a.logLevel); err != nil {
		return err
	}
	if a.db == "" {
		a.db = "poller.db"
	}
	if a.withStdin {
		cmd.SetContext(cli.WhileOpen(cmd.Context(), a.stdin))
	}
	return nil
}

func (a *app) urls() []string { return cli.RedisURLs(a.redis) }

func (a *app) queueURL() string {
	if a.queue != "" {
		return a.queue
	}
	return a.urls()[0]
}

func (a *app) withDatabase(cmd *cobra.Command, f func(context.Context, *database) error) error {
	db, err := openDatabase(cmd.Context(), a.db)
	if err != nil {
		return err
	}
	defer db.Close()
	return f(cmd.Context(), db)
}
