package servertest

import "syscall"

// orphan makes the kernel kill a server when the test's process is killed. (More
// precisely: when the thread that started it ends. Go ends a thread only when a goroutine
// returns locked to it, and no goroutine here does.)
func orphan() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
