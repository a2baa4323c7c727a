package main

import (
	"time"

	"github.com/spf13/cobra"
)

// format is how a command prints what it has found. The default is a table for people.
type format struct {
	wide bool // everything, exact times
	json bool
}

func formatFlags(cmd *cobra.Command, f *format, asJSON string) {
	cmd.Flags().BoolVar(&f.wide, "wide", false, "print all columns, with exact times")
	cmd.Flags().BoolVar(&f.json, "json", false, asJSON)
}

// dateTimeZone is the layout of a time outside of tables.
const dateTimeZone = time.DateTime + " MST"

func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02T15:04:05.000Z07:00") // as in the logs
}
