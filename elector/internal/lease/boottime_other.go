//go:build !linux

package lease

// bootNow returns 0, for unknown: when the other clocks disagree, the lease counts as lost.
func bootNow() int64 { return 0 }
