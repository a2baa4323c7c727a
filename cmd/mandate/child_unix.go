//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// canRun tells whether this system has what running a command safely needs.
func canRun() error { return nil }

// ownGroup makes the command the leader of a new process group, so that all it
// starts can be signalled at once.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// signalGroup ends the group, at once or by asking. A stopped process sees
// SIGTERM only when it continues.
func signalGroup(group int, atOnce bool) {
	// ESRCH is the only error that can come, and then there is nothing to end.
	if atOnce {
		_ = syscall.Kill(-group, syscall.SIGKILL)
		return
	}
	_ = syscall.Kill(-group, syscall.SIGTERM)
	_ = syscall.Kill(-group, syscall.SIGCONT)
}

// groupEmpty tells whether a group has no living process left; its leader must
// have been waited for.
func groupEmpty(group int) bool {
	reapGroup(group)
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return true
	}
	if !allZombies(group) {
		return false
	}
	reapGroup(group) // some of them may have died just now
	return true
}

// reapGroup waits for the orphans of a group: in a container mandate may be
// process 1 and inherit them, and none shall stay a zombie.
func reapGroup(group int) {
	for {
		pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		if !errors.Is(err, syscall.EINTR) && (err != nil || pid <= 0) {
			return
		}
	}
}

// detached puts the guard into a session of its own: neither Ctrl-C nor Ctrl-Z
// nor the end of the terminal reaches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// writeNow makes one attempt to write to a pipe, and never blocks.
func writeNow(pipe *os.File, line []byte) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	// A closed pipe is seen by the end of the process that read from it.
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = syscall.Write(int(fd), line)
		return true
	})
}
