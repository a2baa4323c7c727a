// Command mandate runs a command on one machine of many: on the leader of an election, only
// while its lease is valid and its probes pass. Other subcommands show elections and move the
// leadership.
//
// main.go and root.go are the program, each subcommand has a file of its own. They share
// access.go (the files that let mandate into Redis), connect.go (the quorum and the election),
// flags.go and probes.go, report.go and problem.go (what is wrong with an election),
// errors.go (exit codes), and internal/output (tables, JSON). As elsewhere no two files use
// each other.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

// helpers of `run` are this program, too, under other names: those that package supervise does
// not know by itself.
var helpers = map[string]func(){supervise.ReleaserName: releaserMain}

func main() {
	if supervise.Dispatch(helpers) {
		return
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// execute is main without its process: it returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	defer a.close()
	return a.perform(ctx, a.command(), args)
}

// perform reads a command line, carries it out, and prints what went wrong.
func (a *app) perform(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = a.helpErr
	}
	if err == nil {
		return 0
	}
	if cmd.Name() == "help" { // of what is no command; the help of help is of no use
		cmd = root
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if !exit.quiet {
			a.printError(cmd.CommandPath() + ": " + oneByOne(a.explainGroups(cmd, exit, err)))
		}
		return exit.code
	}
	// All that is left comes from reading the command line.
	a.printError(cmd.CommandPath() + ": " + oneByOne(err) + "\nTry '" + cmd.CommandPath() + " --help'.")
	return exitUsage
}
