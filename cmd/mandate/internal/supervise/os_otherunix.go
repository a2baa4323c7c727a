//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const clock = unix.CLOCK_MONOTONIC

// adopts: only Linux has subreapers. Elsewhere processes that have left the process group may be
// alive when the helper has no child left, so it releases nothing.
const adopts = false

func adoptOrphans() error { return nil }

func adopt() {}

func selfPath() (string, error) { return os.Executable() }

// forkExec waits for execve, and returns its error.
func forkExec(path string, argv []string, attr *syscall.ProcAttr, _ *byte) (int, error) {
	return syscall.ForkExec(path, argv, attr)
}

// dieWithParent does nothing: only Linux has this.
func dieWithParent(*syscall.SysProcAttr) {}

func growPipe(int) {}

func mark(int, int) uint64 { return 0 }

func setMark(uint64) error { return nil }

func markOf(int) uint64 { return 0 }

// process is known on Linux only.
type process struct {
	pid, parent, group int
	name               string
	dead               bool
}

func processes() ([]process, error) { return nil, errors.ErrUnsupported }

func signalOne(process, syscall.Signal) error { return errors.ErrUnsupported }
