package servertest

import "syscall"

// orphan makes the kernel end a server when the test's process is killed. (To be
// exact: when the thread that started it ends. Go ends none, but for goroutines
// that return locked to theirs, of which there are none here.)
func orphan() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
