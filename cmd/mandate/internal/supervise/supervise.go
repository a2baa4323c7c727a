// Package supervise runs a command, and kills all processes that the command has started.
//
//	mandate ── mandate-helper ── COMMAND ── ...   whatever COMMAND starts
//
// A process group is not enough: timeout(1), `set -m` and setsid(1) create groups and sessions of
// their own, and the parent of a daemon is process 1. Therefore COMMAND's parent is the helper,
// which adopts every orphan below it (as a Linux subreaper). All descendants of COMMAND remain
// descendants of the helper, and when it has no child left, no process of COMMAND is left.
//
// These kill the process tree:
//
//   - mandate, at the end of a term: SIGTERM, the grace, SIGKILL;
//   - the helper, when mandate is dead (the pipe between them closes), or has not extended the
//     deadline of the term (SIGSTOP). When mandate is dead and the tree is gone, the helper releases
//     the lock, so that no candidate waits for the lease;
//   - mandate, when the helper was killed. The kernel kills COMMAND itself then; mandate, which is a
//     subreaper as well, adopts the other descendants, kills them, and ends the term.
//
// So any one of the processes may be killed or stopped. If mandate and the helper are killed or
// stopped together, descendants may outlive the lease: then only the fencing token protects.
//
// One mandate may run several commands (for the shards that it owns). Each has its own helper, and
// ends separately.
//
// The remaining limits are in the help of `mandate run`. Unix systems other than Linux have no
// subreapers: there the tree is COMMAND's process group, and the lease of a dead mandate lapses.
package supervise

import (
	"errors"
	"time"
)

// HelperName is the name under which this program is started as the helper. It doesn't contain
// "mandate run", so that `pkill -f 'mandate run'` doesn't kill the helper along with mandate.
const HelperName = "mandate-helper"

// ErrStart means that the helper could not be started, which is not the command's fault.
var ErrStart = errors.New("can't start a process")

// Command is what to run. Env is its whole environment.
type Command struct {
	Path      string
	Argv, Env []string

	// Nodes are the URLs of the Redis nodes, on which the helper releases the Terms of a mandate that
	// was killed. They are sent on a pipe: no command line or environment may hold their passwords.
	Nodes []string
	// Terms are the reports of electors that Terms.Follow of package supervisor reads.
	Terms []byte
	// Promised is how long other programs may work on for a dead mandate: the helper waits for it
	// before it releases.
	Promised time.Duration
}

// Living is a process that is still alive, as it is shown to people.
type Living struct {
	PID  int
	Name string
}

// Instant is a reading, in nanoseconds, of a clock that all processes of this machine share and
// that no user can set. The wall clock would not do: if it was stepped back by an hour, the helper
// would wait for that hour.
type Instant int64

// Now reads the clock.
func Now() Instant { return Instant(nanoseconds()) }

// Add returns the instant that is d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Until returns the time that is left until i, negative when it has passed.
func Until(i Instant) time.Duration { return i.Sub(Now()) }
