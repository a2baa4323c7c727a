// Package supervise runs a command, and ends everything that it has started.
//
//	mandate ─┬─ mandate-releaser                   one for all commands; see releaser_linux.go
//	         ├─ mandate-guard                      replaceable, holds no state
//	         └─ mandate-reaper ── COMMAND ── ...   whatever COMMAND starts
//
// A process group is not enough: timeout(1), `set -m` and setsid(1) make groups
// and sessions of their own, and a daemon's parent is process 1. So COMMAND has a
// parent that adopts every orphan below it (a Linux subreaper). All descendants of
// COMMAND stay descendants of the reaper for as long as they live, and the reaper
// ends when it has no child left: its end is how mandate knows that nothing is left.
//
// Who ends the tree:
//
//   - mandate, at the end of a term: SIGTERM, the grace, SIGKILL;
//   - the guard, when mandate is dead (the pipe between them closes) or has sent nothing
//     beyond the lease (SIGSTOP);
//   - the reaper, in the same cases: any one of the three may be killed or stopped;
//   - the kernel, for COMMAND itself, when the reaper is killed. What was below the
//     reaper is then adopted by mandate, which is a subreaper as well, and kills it.
//
// Where a cgroup was delegated to mandate, COMMAND gets its own, below that, which
// the helpers are not in. It is killed with the tree, and nothing is reported as gone while
// it has a member: so mandate and the reaper may be killed together, and COMMAND may start
// processes of other users.
//
// One mandate may run several commands (the shards that it owns). Each has a guard and a reaper
// of its own, and is ended alone: where mandate is searched for what a killed reaper has left,
// the helpers of the others, and what is below them, are spared.
//
// What remains possible is in the help of `mandate run`. On other Unix systems than
// Linux there are no subreapers, and the tree is COMMAND's process group.
package supervise

import (
	"errors"
	"os"
)

// The helpers are this very program under other names. None holds "mandate run",
// so that a `pkill -f 'mandate run'` doesn't kill them along with mandate.
const (
	GuardName  = "mandate-guard"
	ReaperName = "mandate-reaper"
	// ReleaserName is that of the helper that releases the terms of a mandate that was killed.
	ReleaserName = "mandate-releaser"
)

// ErrStart means that a process of ours could not be started: no fault of the command.
var ErrStart = errors.New("can't start a process")

// Command is what to run. Env is the whole environment.
type Command struct {
	Path      string
	Argv, Env []string
	Cgroup    bool // give it its own cgroup where that is possible

	releaser *Releaser
	term     string
}

// Releaser is mandate's end of the process that releases its terms when it is dead.
type Releaser struct {
	r, w *os.File
	gone chan struct{} // closed when the process has ended
}

// For is the command of a term, which has a name that no other one has: the releaser learns when
// nothing of the command is left. A nil releaser learns nothing.
func (c Command) For(r *Releaser, term string) Command {
	if r != nil {
		c.releaser, c.term = r, term
	}
	return c
}

// Living is a process that is still there, for people.
type Living struct {
	PID  int
	Name string
}
