package main

import "runtime/debug"

// version is set by the linker (see the Makefile).
var version string

// buildVersion returns the version that the Makefile has set, or else that recorded by `go
// install`; empty: neither did.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if version != "" || !ok || info.Main.Version == "(devel)" {
		return version
	}
	return info.Main.Version
}
