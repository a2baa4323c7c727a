// Command mandate runs things on one machine of many: whoever leads the election
// runs the command, and stops running it when its lease or its health is gone.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

// version is set by the linker (see the Makefile).
var version string

func main() {
	switch filepath.Base(os.Args[0]) { // the two helpers of `run` are this program too
	case supervise.GuardName:
		supervise.GuardMain()
		return
	case supervise.ReaperName:
		supervise.ReaperMain()
		return
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes. 126 and 127 are those of a shell; with `run --once` the command's
// own code comes on top.
const (
	exitTrouble     = 1  // anything that has no code of its own
	exitUsage       = 2  // invalid flags or arguments
	exitNoLeader    = 3  // status, resign, transfer: nobody leads; candidates: nobody is there
	exitUnreachable = 4  // all that ask or steer: no majority of the Redis nodes answered
	exitWarnings    = 5  // doctor: it works, with less than it could have
	exitFailures    = 6  // doctor: no election, or none that is safe
	exitRefused     = 7  // resign, transfer: refused
	exitNotReleased = 8  // run, serve: ended by a signal, and the lock was not released
	exitPermanent   = 69 // run: Redis refuses, and waiting can't help (EX_UNAVAILABLE)
	exitNotRunnable = 126
	exitNotFound    = 127
	exitInterrupted = 130 // demo: ended by SIGINT
)

// exitError ends the program with a code of its own.
type exitError struct {
	code  int
	err   error
	quiet bool // it was said already, or there is nothing to say
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError lists everything that is wrong with the flags, each with what to do.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "\n") }

// execute is main without its process: it returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	defer a.close()
	return a.perform(ctx, a.command(), args)
}

// perform reads a command line, does what it says, and tells what went wrong.
func (a *app) perform(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = a.unhelped
	}
	if err == nil {
		return 0
	}
	if cmd.Name() == "help" { // what it was asked about is no command; its own help is of no help
		cmd = root
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if !exit.quiet {
			fmt.Fprintf(a.stderr, "%s: %s\n", cmd.CommandPath(), oneByOne(err))
		}
		return exit.code
	}
	// All that is left comes from reading the command line.
	fmt.Fprintf(a.stderr, "%s: %s\nTry '%s --help'.\n", cmd.CommandPath(), oneByOne(err), cmd.CommandPath())
	return exitUsage
}
