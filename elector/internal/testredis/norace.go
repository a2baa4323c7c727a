//go:build !race

package testredis

// OneProcessor does nothing without the race detector.
func OneProcessor() (restore func()) { return func() {} }
