//go:build unix

package health

import (
	"os"
	"os/exec"
	"syscall"
)

// killWholeGroup gives the command its own process group and makes the end of its
// context kill all of it: `sh -c "sleep 60; true"` would otherwise leave the sleep behind.
func killWholeGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		// Once the program is reaped its number may belong to another process.
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			return os.ErrProcessDone
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
