package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  mandate version\n  mandate version --json",
		Args:    noNames(""),
		PreRunE: func(*cobra.Command, []string) error { return a.usage() },
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprintln(a.stdout, versionLine())
				return err
			}
			return output.JSONLine(a.stdout, map[string]string{
				"version": buildVersion(), "go": runtime.Version(), "platform": platform(),
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

func versionLine() string {
	return fmt.Sprintf("mandate %s (%s, %s)", buildVersion(), runtime.Version(), platform())
}

// buildVersion returns the version that the Makefile has set, or else that recorded by `go
// install`.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// version is set by the linker (see the Makefile).
var version string
