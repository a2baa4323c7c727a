package servertest

import "syscall"

const stop, resume = syscall.SIGSTOP, syscall.SIGCONT

// orphan makes the kernel kill a server when the test's process is killed. (More
// precisely: when the thread that started it ends. Go ends a thread only when a goroutine
// returns locked to it, and no goroutine here does.)
func orphan() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// as makes a server run as another user.
func as(uid, gid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
}
