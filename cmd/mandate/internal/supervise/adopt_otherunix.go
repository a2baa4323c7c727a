//go:build unix && !linux

package supervise

// startAdopting does nothing: only Linux has subreapers.
func startAdopting() {}
