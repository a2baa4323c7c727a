package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  mandate version\n  mandate version --json",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return a.usage() },
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if !asJSON {
				_, err := fmt.Fprintf(a.stdout, "mandate %s (%s, %s)\n", buildVersion(), runtime.Version(), platform)
				return err
			}
			return json.NewEncoder(a.stdout).Encode(map[string]string{
				"version": buildVersion(), "go": runtime.Version(), "platform": platform,
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// buildVersion is what the Makefile set, else what `go install` knows.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
