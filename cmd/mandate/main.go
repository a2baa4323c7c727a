// Command mandate runs a command on one machine of many: on the leader of an election, only
// while its lease is valid and its probes pass. Other subcommands show elections and move the
// leadership.
//
// main.go and root.go are the program; each command has a file of its own, pause.go also resume, and
// transfer.go resign. A command takes a terminal (where its output and log go), or a connection (the quorum,
// an election, what to type next). Commands share errors.go (exit codes), report.go and groups.go (what
// operators see), names.go and operator.go; those that campaign candidate.go, probes.go and http.go.
package main

import (
	"context"
	"errors"
	"io"
	"os"

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
	c := &connection{terminal: &terminal{args: args, stdout: stdout, stderr: stderr}}
	defer c.close()
	root := rootCommand(c)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if c.log != nil { // the command was prepared; an error before that is cobra's own
		err = withCode(err)
	}
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) { // all other errors are about the command line
		c.fail(cmd, exitUsage, c.formatError(err), "Try '"+cmd.CommandPath()+" --help'.")
		return exitUsage
	}
	if !exit.quiet {
		c.fail(cmd, exit.code, c.formatError(err), "")
	}
	if exit.code == exitNoLeader { // only then: asking Redis for names takes seconds in an outage
		if group := c.groupAdvice(ctx, cmd); group != "" {
			c.printError(cmd.CommandPath() + ": " + group)
		}
	}
	return exit.code
}
