//go:build unix

package supervise

import (
	"syscall"
	"time"
)

// isGone reports whether nothing of the tree is left.
func (p *Process) isGone() bool {
	if !closed(p.gone) {
		return false
	}
	if p.hasMembers() {
		return false
	}
	if !p.orphaned {
		return true
	}
	// The kernel has killed the command, and we have inherited the rest.
	living, _ := p.rest().signal(0)
	return living == 0
}

// hasMembers reports whether something lives in the cgroup.
func (p *Process) hasMembers() bool {
	if p.events != nil {
		return hasMembers(p.events)
	}
	return p.tree.cgroup.populated()
}

// signal reaches what is left of the tree.
func (p *Process) signal(sig syscall.Signal) {
	switch {
	case !closed(p.gone):
		p.tree.signal(sig)
		// A reaper that was stopped could neither reap nor report.
		_ = p.reaper.Process.Signal(syscall.SIGCONT)
	case p.orphaned:
		p.rest().signal(sig)
	case sig == syscall.SIGKILL: // the cgroup has members that are not below the reaper
		p.tree.cgroup.kill()
	}
}

// rest is what a killed reaper leaves behind: it is below us now. What the reaper of
// another command has left, if that was killed too, can't be distinguished from it.
func (p *Process) rest() tree {
	t := p.us
	t.left, t.group, t.cgroup = true, p.pid, p.tree.cgroup
	return t
}

// Terminate sends SIGTERM to all processes of the tree. A stopped one sees that only when
// it continues.
func (p *Process) Terminate() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
}

// AwaitGone waits until nothing of the tree is left. It returns false when one of the
// others came first.
func (p *Process) AwaitGone(timeout <-chan time.Time, force <-chan struct{}) bool {
	return p.await(timeout, force, p.isGone)
}

// Kill kills the tree, again and again until nothing is left of it: one scan of a
// tree that grows never sees all of it. It returns false when the timeout came first.
func (p *Process) Kill(timeout <-chan time.Time) bool {
	p.killing = p.killing || Until(p.until) > 0 // later the guard does it, too
	return p.await(timeout, nil, func() bool {
		p.signal(syscall.SIGKILL)
		return p.isGone()
	})
}

func (p *Process) await(timeout <-chan time.Time, force <-chan struct{}, done func() bool) bool {
	var pause pauses
	rescan := time.NewTimer(pause.next())
	defer rescan.Stop()
	gone := p.gone
	for !done() {
		select {
		case <-gone:
			gone = nil
		case <-rescan.C:
			rescan.Reset(pause.next())
		case <-timeout:
			return p.isGone()
		case <-force:
			return p.isGone()
		}
	}
	return true
}

// Left are the living processes of the tree.
func (p *Process) Left() []Living {
	switch {
	case !closed(p.gone):
		return p.tree.living()
	case p.orphaned:
		return p.rest().living()
	default:
		return p.tree.cgroup.members()
	}
}
