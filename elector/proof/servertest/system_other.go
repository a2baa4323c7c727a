//go:build !linux

package servertest

import "syscall"

// The numbers of macOS and the BSDs. Windows refuses both signals, and has none of the servers.
const stop, resume = syscall.Signal(17), syscall.Signal(19)

// orphan returns nil: only Linux can kill a server when its test is killed.
func orphan() *syscall.SysProcAttr { return nil }

// as returns nil: PostgreSQL itself says that it does not run as root.
func as(_, _ uint32) *syscall.SysProcAttr { return nil }
