//go:build unix && !linux

package supervise

import "testing"

// sweep can't be done here: the scripts end after a minute.
func sweep(*testing.T, string) {}
