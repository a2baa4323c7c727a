//go:build !unix

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{Use: "run", Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("mandate run works on Unix only")
	}}
}
