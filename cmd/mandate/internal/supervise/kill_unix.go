//go:build unix

package supervise

import (
	"syscall"
	"time"
)

// signal sends a signal to the whole tree, and returns how many living processes were found
// below the root, and how many of them may not be signalled.
func (t tree) signal(sig syscall.Signal) (living, denied int) {
	if sig == syscall.SIGKILL {
		t.cgroup.kill()
	}
	return t.signalBelow(sig)
}

// kill kills the tree until nothing of it is left, and then its root: one scan of
// a tree that grows never sees all of it. The root must not go first: what is below
// it would get another parent, and be lost. When another process has killed the root
// before, the cgroup still has what was below it.
func (t tree) kill() {
	var p pauses
	defer t.cgroup.remove()
	for empty := 0; t.rootLives(); {
		living, denied := t.signal(syscall.SIGKILL)
		if empty++; living > 0 {
			empty = 0
		}
		// The reaper has some scans' time to reap, to report and to end. Then it
		// is one that was stopped, or that waits for a command yet.
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

// pauses are for scanning again and again: first often, then less so.
type pauses struct{ last time.Duration }

func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, time.Millisecond), 20*time.Millisecond)
	return p.last
}

// How many scans an empty tree gets until its root is killed: one that is stopped, and one
// that may only be slow to run. Killing that would leave what it reaps to mandate, which then
// waits for all of its own children.
const (
	scansOfStopped = 4
	scansOfBusy    = 200 // 4 s
)

// deniedPause is the pause between two scans of processes that we may not signal.
const deniedPause = time.Second
