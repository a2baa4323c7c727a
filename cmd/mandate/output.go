package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// format is how a command prints what it has found. The default is a table for people, as wide as
// the terminal.
type format struct {
	wide bool // everything, whole names, exact times
	json bool
}

// formatFlags adds --wide and --json.
func formatFlags(cmd *cobra.Command, f *format, asJSON string) {
	cmd.Flags().BoolVar(&f.wide, "wide", false, "print everything, with whole names and exact times")
	cmd.Flags().BoolVar(&f.json, "json", false, asJSON)
}

// printer returns a printer for tables. Wide tables are not narrowed.
func (a *app) printer(f format) *output.Printer {
	p := output.New(a.stdout)
	p.Whole = f.wide
	return p
}

// dateTimeZone is the layout of a time outside of tables.
const dateTimeZone = time.DateTime + " MST"

func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339Nano)
}

// printError writes an error to stderr, wrapped at the width of a terminal.
func (a *app) printError(text string) {
	p := output.New(a.stderr)
	for line := range strings.SplitSeq(text, "\n") {
		_ = p.Lines(p.Prose(line)) // there is no other place to report a failure
	}
}
