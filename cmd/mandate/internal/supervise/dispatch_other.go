//go:build !unix

package supervise

// Dispatch returns false: this system has no helper.
func Dispatch() (was bool) { return false }
