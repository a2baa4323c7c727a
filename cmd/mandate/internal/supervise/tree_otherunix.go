//go:build unix && !linux

package supervise

import "syscall"

func (t tree) signalBelow(sig syscall.Signal) (living, denied int) {
	return t.signalGroup(sig)
}

func (t tree) living() []Living { return nil }

func (t tree) rootLives() bool { return syscall.Kill(t.root, 0) == nil }

func (t tree) rootStopped() bool { return false }

func (t tree) killRoot() { _ = syscall.Kill(t.root, syscall.SIGKILL) }

func identify(int) uint64 { return 0 }

func adoptOrphans() error { return nil }

// Marked returns nothing: it is not available here.
func Marked(...string) []Living { return nil }
