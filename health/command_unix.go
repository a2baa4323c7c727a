//go:build unix

package health

import (
	"os"
	"os/exec"
	"syscall"
)

// killWholeGroup gives the command its own process group, and kills the whole group when its
// context ends: `sh -c "sleep 60; true"` would otherwise leave the sleep behind.
func killWholeGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		// Once the program is reaped, another process may have its PID.
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			return os.ErrProcessDone
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
