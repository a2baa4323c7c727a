//go:build !unix

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func dispatch() (was bool) { return false }

func runCommand(*connection) *cobra.Command {
	return unsupported("run", "Unix only, for want of signals and process groups: use mandate serve here, or embed the library")
}

func superviseCommand(*connection) *cobra.Command { return unsupported("supervise", "Linux only") }

func unsupported(name, where string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("mandate " + name + " works on " + where)
	}}
}
