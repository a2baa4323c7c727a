//go:build unix && !linux

package servertest

import "syscall"

// orphan: only Linux can end a server along with a test that is killed.
func orphan() *syscall.SysProcAttr { return nil }
