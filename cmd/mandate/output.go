package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// format is how a command prints what it has found.
type format string

const (
	formatTable format = ""     // for people, as wide as the terminal
	formatWide  format = "wide" // everything, whole names, exact times
	formatName  format = "name" // one name per line
	formatJSON  format = "json"
)

// formatFlags adds -o, and --json as a short form of -o json.
func (a *app) formatFlags(cmd *cobra.Command, f *format, asJSON string, allowed ...format) {
	names := make([]string, len(allowed))
	for i, one := range allowed {
		names[i] = string(one)
	}
	cmd.Flags().VarP(&formatFlag{a, f, names}, "output", "o", "`FORMAT`: "+strings.Join(names, ", ")+" (default: a table)")
	complete(cmd, "output", names)
	j := cmd.Flags().VarPF((*jsonFlag)(f), "json", "", asJSON+": the same as -o json")
	j.NoOptDefVal = "true"
}

type formatFlag struct {
	app     *app
	format  *format
	allowed []string
}

func (f *formatFlag) Set(s string) error {
	if !slices.Contains(f.allowed, s) {
		f.app.problem("-o is %q: use one of %s", s, strings.Join(f.allowed, ", "))
		return nil
	}
	*f.format = format(s)
	return nil
}

func (f *formatFlag) String() string { return "" }
func (f *formatFlag) Type() string   { return "format" }

type jsonFlag format

func (f *jsonFlag) Set(s string) error {
	yes, err := strconv.ParseBool(s)
	if yes {
		*f = jsonFlag(formatJSON)
	}
	return err
}

func (f *jsonFlag) String() string   { return strconv.FormatBool(format(*f) == formatJSON) }
func (f *jsonFlag) Type() string     { return "bool" }
func (f *jsonFlag) IsBoolFlag() bool { return true }

// printer returns a printer for tables. Wide tables are not clipped.
func (a *app) printer(f format) *output.Printer {
	p := output.New(a.stdout)
	if f == formatWide {
		p.Width = 0
	}
	return p
}

func printNames[T any](p *output.Printer, all []T, name func(T) string) error {
	lines := make([]string, len(all))
	for i, one := range all {
		lines[i] = output.Printable(name(one))
	}
	return p.Lines(lines)
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
