package main

import (
	"cmp"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/demo"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

func demoCommand(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Watch elections and failures on embedded Redis",
		Long: `Run three small Redis nodes and three candidates in this process, and show an
election, a handover, a leader that hangs, a Redis that hangs, a leader that is
cut off, and a late write of a former leader. All times are measured while it
runs. It takes about ten seconds; --log-level debug also shows the candidates'
log.`,
		Example: "  mandate demo",
		Args:    noNames(": it has its own election"),
		PreRunE: func(*cobra.Command, []string) error { return t.usage() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.DiscardHandler)
			if t.logLevel == "debug" {
				log = t.log
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err := demo.Play(ctx, output.New(t.stdout), log)
			if ctx.Err() != nil {
				return &exitError{code: exitInterrupted, err: cmp.Or(err, errors.New("interrupted")), quiet: true}
			}
			return err
		},
	}
}
