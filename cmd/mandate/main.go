// Command mandate runs a command on one machine of many: on the leader of an election, only
// while its lease is valid and its probes pass. Other subcommands show elections and move the
// leadership.
//
// main.go and root.go are the program; each subcommand has a file of its own. They share connect.go
// (the quorum and the election), flags.go and probes.go, report.go (an election as operators see it),
// groups.go (groups of shards), errors.go (exit codes), logs.go, and internal/output (tables, JSON).
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // the roots of TLS where the machine has none, as in the image from scratch
)

func main() {
	if dispatch() {
		return
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// execute parses a command line, executes it, and prints any error. It returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{args: args, stdout: stdout, stderr: stderr}
	defer a.close()
	root := a.command()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if a.log != nil { // the command was prepared; an error before that is cobra's own
		err = withCode(err)
	}
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) { // all other errors are about the command line
		a.fail(cmd, exitUsage, a.formatError(err), "Try '"+cmd.CommandPath()+" --help'.")
		return exitUsage
	}
	if !exit.quiet {
		a.fail(cmd, exit.code, a.formatError(err), "")
	}
	if exit.code == exitNoLeader { // only then: asking Redis for other names takes seconds in an outage
		if alike := a.alike(ctx, cmd); alike != "" {
			a.printError(cmd.CommandPath() + ": " + alike)
		}
	}
	return exit.code
}

// fail reports why the command ends. What logs in JSON does so to its last line.
func (a *app) fail(cmd *cobra.Command, code int, text, hint string) {
	log := a.log
	if log == nil { // the error is cobra's own, and no command was prepared
		_ = a.fromEnvironment(cmd.Flag("log-format"))
		log = slog.New(handlerFor(a.stderr, a.logFormat, slog.LevelInfo))
	}
	if a.logFormat == "json" && runsLong(cmd) {
		log.Error("command failed", "command", cmd.CommandPath(), "error", text, "exit_code", code)
		return
	}
	a.printError(strings.TrimSpace(cmd.CommandPath() + ": " + text + "\n" + hint))
}

// version is set by the linker (see the Makefile).
var version string

// buildVersion returns the version that the Makefile has set, or else that recorded by `go
// install`; empty: neither did.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if version != "" || !ok || info.Main.Version == "(devel)" {
		return version
	}
	return info.Main.Version
}
