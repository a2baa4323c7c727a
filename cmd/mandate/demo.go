package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/demo"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

func (a *app) demoCommand() *cobra.Command {
	var onPage bool
	var addr string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch elections and failures on embedded Redis",
		Long: `Run three small Redis nodes and three candidates in this process, and show an
election, a handover, a leader that hangs, a Redis that hangs, a leader that is
cut off, and a late write of a former leader. All times are measured while it
runs. It takes about ten seconds; --log-level debug also shows the candidates'
log.

With --console the demo repeats on the page of mandate console (an address may
follow; default ` + defaultConsole + `) until it is interrupted.

Exit codes: 0 all steps happened, 1 one did not, 130 ended by SIGINT.`,
		Example: "  mandate demo\n  mandate demo --console",
		Args: func(cmd *cobra.Command, args []string) error {
			if onPage {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return noNames(": it has its own election")(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if addr = slices.Concat(args, []string{defaultConsole})[0]; onPage {
				a.checkAddress(cmd.Context(), "--console", addr)
			}
			return a.usage()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.DiscardHandler)
			if a.logLevel == "debug" {
				log = a.log
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var err error
			if onPage {
				err = a.demoOnPage(ctx, addr, log)
			} else {
				err = demo.Play(ctx, output.New(a.stdout), log)
			}
			if ctx.Err() != nil {
				return &exitError{code: exitInterrupted, err: cmp.Or(err, errInterrupted), quiet: true}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&onPage, "console", false, "show it on a page until interrupted; an address to listen on may follow")
	return cmd
}

var errInterrupted = errors.New("interrupted")

func (a *app) demoOnPage(ctx context.Context, addr string, log *slog.Logger) error {
	l, err := listenOn(ctx, "--console", addr)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	p := output.New(a.stdout)
	p.Println("%s", p.Paint(output.Bold, "mandate demo, on a page: until you interrupt it"))
	token := rand.Text()
	a.announce(l, &consoleFlags{}, token)
	return demo.Serve(ctx, p, l, token, log)
}
