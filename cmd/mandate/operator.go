package main

import (
	"os"
	"os/user"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// actFlags are the flags of the commands that act on an election.
type actFlags struct {
	asJSON, force bool
	timeout       time.Duration
	by, reason    string
}

// add adds those flags that have a usage text, and those of all these commands.
func (o *actFlags) add(cmd *cobra.Command, reason, force string) {
	f := cmd.Flags()
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	f.StringVar(&o.by, "by", "", "`WHO` requests it, for the history and the status (env MANDATE_BY; default USER@HOST)")
	if reason != "" {
		f.StringVar(&o.reason, "reason", "", reason)
	}
	if force != "" {
		f.BoolVar(&o.force, "force", false, force)
	}
}

// maxReason and maxBy together fit into an entry of the history.
const (
	maxReason = 380
	maxBy     = 100
)

// open is the PreRunE of these commands: it opens the election, to act on it as the operator.
func (o *actFlags) open(c *connection) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(o.reason) > maxReason {
			c.problem("--reason is %d bytes long: at most %d", len(o.reason), maxReason)
		}
		o.by = operator(c.terminal, o.by)
		err := c.openElection(cmd, args)
		if err == nil {
			c.election = c.election.As(o.by)
		}
		return err
	}
}

// operator returns the name of the operator: the flag, or else the environment variable, or else
// the user and host of this process.
func operator(t *terminal, by string) string {
	from := "--by"
	if by == "" {
		by, from = t.variable("MANDATE_BY"), "MANDATE_BY"
	}
	if by == "" {
		host, _ := os.Hostname() // the user name alone must do
		name := "?"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		by = output.Printable(strings.ToValidUTF8(strings.TrimSuffix(name+"@"+host, "@"), "?"))
		return strings.ToValidUTF8(by[:min(len(by), maxBy)], "")
	}
	if len(by) > maxBy || by != output.Printable(by) || !utf8.ValidString(by) {
		t.problem("%s is %.120q: give a name of at most %d bytes, without control characters", from, by, maxBy)
	}
	return by
}
