//go:build !unix

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func dispatch() (was bool) { return false }

func (a *app) runCommand() *cobra.Command       { return unixOnly("run") }
func (a *app) superviseCommand() *cobra.Command { return unixOnly("supervise") }

func unixOnly(name string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("mandate " + name + " works on Unix only, for want of signals and process groups: use mandate serve here, or embed the library")
	}}
}
