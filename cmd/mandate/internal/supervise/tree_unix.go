//go:build unix

package supervise

import (
	"errors"
	"syscall"
)

// tree is what a command has started: the descendants of its reaper, which is identified by its pid
// and its start time. On systems that can't list descendants the tree is the command's process
// group. The members of its cgroup belong to the tree, too.
type tree struct {
	root   int
	start  uint64
	group  int // of the command; 0: not known yet
	cgroup cgroup

	// left: the root is mandate itself, which has inherited what a killed reaper has left. The
	// helpers of its other commands, and their descendants, do not belong to the tree.
	left bool
}

// signalGroup is signalBelow for the command's process group only.
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
