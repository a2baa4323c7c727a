//go:build unix && !linux

package main

// programs are what the test binary stands in for in scripts.
func programs() map[string]func() int { return map[string]func() int{"mandate": program} }
