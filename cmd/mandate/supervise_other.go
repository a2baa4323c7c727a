//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) superviseCommand() *cobra.Command {
	return &cobra.Command{Use: "supervise", Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("mandate supervise works on Linux only")
	}}
}
