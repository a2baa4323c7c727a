//go:build unix

package main

import (
	"context"
	"errors"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

const superviseHelp = `Run COMMAND, a program that embeds the library and campaigns itself, and
release its locks when it dies: another candidate then leads within
milliseconds, and not when the lease has lapsed. Linux only.

COMMAND finds a pipe in MANDATE_SUPERVISOR_FD, and reports its terms on it; the
library does that on its own. When COMMAND ends, however it does, every process
that it started is killed. When none is left, also none that left its process
group, its session or its parent, each term that COMMAND led and has not
released itself is released: exactly that term, and all of them in one batch,
when what COMMAND has promised over HTTP (valid_for_ms) has lapsed. History shows
it as "crashed". Processes that other programs start for COMMAND (docker run,
systemd-run) are not known, and not waited for.

Whenever anything is unclear, the lock is left to its lease: a process that
can't be killed (of another user), a process elsewhere that holds the pipe,
Redis away, this supervisor or the machine dead. COMMAND survives a supervisor
that dies, unless that was process 1 of its container.

It can run as process 1: it adopts and reaps orphans, passes all signals on to
COMMAND, and exits with COMMAND's code. COMMAND is not in the terminal's
foreground: reading from the terminal stops it. Ctrl-Z stops both, and fg
continues both; while they are stopped the lease lapses. A program that replaces
itself (exec) once it campaigns is no longer known: its crashes cost the lease.

--redis or MANDATE_REDIS must name the same nodes as COMMAND uses: the pipe
carries names of terms, and no addresses or passwords. They are only used after
a crash.`

func superviseCommand(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "supervise [flags] -- COMMAND [ARG...]",
		Short: "Run a program that leads, release its locks when it dies",
		Long:  superviseHelp,
		Example: `  mandate supervise -- ./worker

  # the entry point of a container
  ENTRYPOINT ["mandate", "supervise", "--", "/worker"]`,
	}
	cmd.Flags().SetInterspersed(false) // what follows COMMAND belongs to COMMAND
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		checkCommand(c.terminal, cmd, args)
		return c.open(anyElection)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return superviseWorker(cmd.Context(), c, args) }
	return cmd
}

// supervise runs the worker until it exits, and then releases the terms that it led.
func superviseWorker(ctx context.Context, c *connection, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return notStarted(args[0], err)
	}
	w, err := supervise.StartWorker(path, args)
	if err != nil {
		return notStarted(args[0], err)
	}
	c.log.Debug("worker started", "pid", w.PID)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.PassSignals(cancel)
	select {
	case sig := <-w.Stopped:
		noteStopped(c.log.With("pid", w.PID), sig)
		<-w.Exited
	case <-w.Exited:
	}
	if w.Failed != nil {
		return notStarted(args[0], w.Failed)
	}
	status := statusOf(w.Status)
	switch gone, closed := w.Await(); {
	case !gone:
		c.log.Error("processes of the worker cannot be killed; its lease lapses", "processes", w.Left())
	case !closed:
		c.log.Error("a process that is not below the supervisor holds the worker's pipe; its lease lapses")
	default:
		releaseTerms(ctx, c, &w.Terms, status)
	}
	if code := exitCode(w.Status); code != 0 {
		return &exitError{code: code, err: errors.New("the worker ended: " + status), quiet: true}
	}
	return nil
}

// releaseTerms releases the terms that the worker led when it died.
func releaseTerms(ctx context.Context, c *connection, terms *supervisor.Terms, status string) {
	if terms.Empty() {
		return
	}
	led := terms.Len()
	n, err := terms.Release(ctx, c.quorum, "worker: "+status)
	if n > 0 {
		c.log.Warn("worker died while it led; its terms are released", "terms", n, "status", status)
	} else if led > 0 && err == nil {
		c.log.Warn("worker died while it led; none of its locks is held on these nodes: either they had expired, or --redis names other nodes than the worker's",
			"terms", led, "status", status)
	}
	if err != nil {
		c.log.Warn("terms not released, they lapse", "error", err)
	}
}
