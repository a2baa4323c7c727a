package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

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
