//go:build !linux

package supervise

// Room returns nil: the limits are unknown here.
func Room(int) error { return nil }
