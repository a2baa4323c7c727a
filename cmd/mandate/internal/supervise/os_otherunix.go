//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const clock = unix.CLOCK_MONOTONIC

// adopts: only Linux has subreapers. Elsewhere processes that have left the process group may be
// alive when the helper has no child left, so it releases nothing.
const adopts = false

func adoptOrphans() error { return nil }

func startAdopting() {}

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

func (t tree) signal(sig syscall.Signal) (living, denied int) { return t.signalGroup(sig) }

func (t tree) living() []Living { return nil }
