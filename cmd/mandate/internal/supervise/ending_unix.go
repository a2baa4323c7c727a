//go:build unix

package supervise

import (
	"syscall"
	"time"
)

// isGone reports whether no process of the tree is left.
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
	// The reaper was killed, and with it the command. This process has inherited the other
	// descendants.
	living, _ := p.rest().signal(0)
	return living == 0
}

// hasMembers reports whether the cgroup has a living member.
func (p *Process) hasMembers() bool {
	if p.events != nil {
		return hasMembers(p.events)
	}
	return p.tree.cgroup.populated()
}

// signal sends sig to what is left of the tree.
func (p *Process) signal(sig syscall.Signal) {
	switch {
	case !closed(p.gone):
		p.tree.signal(sig)
		// Continue the reaper: if it was stopped, it could neither reap nor report.
		_ = p.reaper.Process.Signal(syscall.SIGCONT)
	case p.orphaned:
		p.rest().signal(sig)
	case sig == syscall.SIGKILL: // the cgroup has members that are not descendants of the reaper
		p.tree.cgroup.kill()
	}
}

// rest returns what a killed reaper has left, which is now below this process. If the reaper of
// another command was killed, too, what that has left can't be distinguished from it.
func (p *Process) rest() tree {
	t := p.us
	t.left, t.group, t.cgroup = true, p.pid, p.tree.cgroup
	return t
}

// Terminate sends SIGTERM to all processes of the tree, and continues them: a stopped process would
// not handle the signal.
func (p *Process) Terminate() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
}

// AwaitGone blocks until no process of the tree is left, or until timeout or force fires. It
// reports whether none is left.
func (p *Process) AwaitGone(timeout <-chan time.Time, force <-chan struct{}) bool {
	return p.await(timeout, force, p.isGone)
}

// Kill kills the tree repeatedly until no process of it is left: a single scan of a tree that grows
// misses new processes. It returns false if the timeout comes first.
func (p *Process) Kill(timeout <-chan time.Time) bool {
	p.killing = p.killing || Until(p.until) > 0 // after the deadline the guard kills the tree, too
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

// Left returns the living processes of the tree.
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
