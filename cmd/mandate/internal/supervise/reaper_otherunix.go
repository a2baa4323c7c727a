//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"
)

func selfPath() (string, error) { return os.Executable() }

// dieWithParent does nothing: only Linux has this.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitGroup blocks until the command's process group is empty. Its orphans are adopted by process
// 1, so there is no event for their end.
func awaitGroup(group int) {
	for p := (pauses{}); !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH); {
		time.Sleep(p.next())
	}
}

// reportGone does nothing: processes that have left the process group may be alive.
func reportGone(int, string) {}
