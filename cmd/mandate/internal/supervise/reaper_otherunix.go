//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"
)

func selfPath() (string, error) { return os.Executable() }

// dieWithParent: only Linux has it.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitGroup waits until the command's group is empty: its orphans are adopted by
// process 1, and there is no event for their end.
func awaitGroup(group int) {
	for p := (pauses{}); !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH); {
		time.Sleep(p.next())
	}
}

// reportGone reports nothing: what has left the process group may live.
func reportGone(int, string) {}
