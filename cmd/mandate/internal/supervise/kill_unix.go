//go:build unix

package supervise

import (
	"syscall"
	"time"
)

// signal sends a signal to the whole tree. It returns how many living processes were found below
// the root, and how many of them this process may not signal.
func (t tree) signal(sig syscall.Signal) (living, denied int) {
	if sig == syscall.SIGKILL {
		t.cgroup.kill()
	}
	return t.signalBelow(sig)
}

// kill kills the tree repeatedly until no process of it is left, and then its root: a single scan
// of a tree that grows misses new processes. The root must not be killed first: its descendants
// would get another parent and could not be found any more. If another process has killed the root
// before, the cgroup still contains its descendants.
func (t tree) kill() {
	var p pauses
	defer t.cgroup.remove()
	for empty := 0; t.rootLives(); {
		living, denied := t.signal(syscall.SIGKILL)
		if empty++; living > 0 {
			empty = 0
		}
		// The reaper gets the time of some scans to reap, to report and to exit. If it still runs
		// then, it was stopped, or waits for a command to be sent.
		if empty > scansOfBusy || empty > scansOfStopped && t.rootStopped() {
			t.killRoot()
		}
		if living > 0 && living == denied {
			time.Sleep(deniedPause)
			continue
		}
		time.Sleep(p.next())
	}
	for t.cgroup.populated() {
		t.cgroup.kill()
		time.Sleep(p.next())
	}
}

// pauses are the growing pauses between repeated scans.
type pauses struct{ last time.Duration }

func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, time.Millisecond), 20*time.Millisecond)
	return p.last
}

// scansOfStopped and scansOfBusy are how many scans find an empty tree before its root is killed:
// if the root is stopped, and if it may only be slow. Killing a slow root would leave its remaining
// children to mandate, which would then have to wait for them.
const (
	scansOfStopped = 4
	scansOfBusy    = 200 // 4 s
)

// deniedPause is the pause between two scans if no process found may be signalled.
const deniedPause = time.Second
