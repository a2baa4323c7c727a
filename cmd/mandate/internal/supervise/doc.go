// Package supervise runs a command, and kills all processes that the command has started.
//
//	mandate ─┬─ mandate-releaser                   one for all commands; see releaser_linux.go
//	         ├─ mandate-guard                      replaceable, holds no state
//	         └─ mandate-reaper ── COMMAND ── ...   whatever COMMAND starts
//
// A process group is not enough: timeout(1), `set -m` and setsid(1) create groups and sessions of
// their own, and the parent of a daemon is process 1. Therefore COMMAND's parent is the reaper,
// which adopts every orphan below it (as a Linux subreaper). All descendants of COMMAND remain
// descendants of the reaper, and the reaper exits when it has no child left: mandate then knows
// that no process is left.
//
// These kill the process tree:
//
//   - mandate, at the end of a term: SIGTERM, the grace, SIGKILL;
//   - the guard, when mandate is dead (the pipe between them closes) or has not extended the guard's
//     deadline (SIGSTOP);
//   - the reaper, in the same cases: so any one of the three processes may be killed or stopped;
//   - the kernel kills COMMAND itself when the reaper is killed. The other descendants are then
//     adopted by mandate, which is a subreaper as well, and kills them.
//
// Where a cgroup was delegated to mandate, COMMAND gets its own cgroup below that one. The helpers
// are not in it. It is killed together with the tree, and no tree is reported as gone while its
// cgroup has a member: so mandate and the reaper may even be killed together, and COMMAND may start
// processes of other users.
//
// One mandate may run several commands (for the shards that it owns). Each has its own guard and
// reaper, and is ended separately: when mandate searches its own descendants for what a killed
// reaper has left, it spares the helpers of the other commands and their descendants.
//
// The remaining limits are in the help of `mandate run`. Unix systems other than Linux have no
// subreapers; there the tree is COMMAND's process group.
package supervise

import (
	"errors"
	"os"
)

// The helpers are this program, started under other names. No name contains "mandate run", so that
// `pkill -f 'mandate run'` doesn't kill the helpers along with mandate.
const (
	GuardName  = "mandate-guard"
	ReaperName = "mandate-reaper"
	// ReleaserName is the name of the helper that releases the terms of a mandate that was killed.
	ReleaserName = "mandate-releaser"
)

// ErrStart means that a helper process could not be started, which is not the command's fault.
var ErrStart = errors.New("can't start a process")

// Command is what to run. Env is its whole environment.
type Command struct {
	Path      string
	Argv, Env []string
	Cgroup    bool // give it its own cgroup where that is possible

	releaser *Releaser
	term     string
}

// Releaser is mandate's handle of the releaser process, which releases mandate's terms when it is
// dead.
type Releaser struct {
	r, w *os.File
	gone chan struct{} // closed when the process has ended
}

// For returns the command of one term. term must be unique: it names the term to the releaser when
// no process of the command is left. With a nil Releaser, nothing is reported.
func (c Command) For(r *Releaser, term string) Command {
	if r != nil {
		c.releaser, c.term = r, term
	}
	return c
}

// Living is a process that is still alive, as it is shown to people.
type Living struct {
	PID  int
	Name string
}
