package main

import (
	"errors"
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

// formatFlags adds -o, and --json as a short form of -o json.
func formatFlags(cmd *cobra.Command, f *format, asJSON string) {
	cmd.Flags().BoolVar(&f.json, "json", false, asJSON+": the same as -o json")
	cmd.Flags().VarP(f, "output", "o", "wide (everything, whole names, exact times) or json (default: a table)")
}

// Set takes the value of -o.
func (f *format) Set(s string) error {
	switch s {
	case "wide":
		f.wide = true
	case "json":
		f.json = true
	default:
		return errors.New("use wide or json")
	}
	return nil
}

func (f *format) String() string { return "" }

// Type names the value of -o in the help.
func (f *format) Type() string { return "FORMAT" }

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
