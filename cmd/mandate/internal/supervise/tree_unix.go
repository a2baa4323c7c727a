//go:build unix

package supervise

import (
	"errors"
	"syscall"
	"time"
)

// tree is what a command has started: the descendants of its helper. On systems that can't list
// descendants the tree is the command's process group.
type tree struct {
	root  int
	group int // of the command; 0: not known yet

	// spareHelpers: the root is mandate itself, which has inherited what a killed helper has left. Its
	// other helpers, and their descendants, do not belong to the tree.
	spareHelpers bool
}

// signalGroup is signal for the command's process group only.
func (t tree) signalGroup(sig syscall.Signal) (living, denied int) {
	if t.group <= 1 { // 0 and 1 would mean our own group and all processes
		return 0, 0
	}
	switch err := syscall.Kill(-t.group, sig); {
	case errors.Is(err, syscall.ESRCH):
		return 0, 0
	case errors.Is(err, syscall.EPERM):
		return 1, 1
	default:
		return 1, 0
	}
}

// pauses are the growing pauses between repeated scans.
type pauses struct{ last time.Duration }

func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, time.Millisecond), 20*time.Millisecond)
	return p.last
}

// deniedPause is the pause between two scans if no process found may be signalled.
const deniedPause = time.Second
