//go:build unix && !linux

package servertest

import "syscall"

// orphan returns nil: only Linux can kill a server when its test is killed.
func orphan() *syscall.SysProcAttr { return nil }
