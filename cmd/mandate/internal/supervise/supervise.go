//go:build unix

// Package supervise runs commands, and kills all processes that they have started.
//
//	mandate ─┬─ mandate-helper ─┬─ COMMAND ── ...   whatever COMMAND starts
//	         │                  └─ COMMAND ── ...   one for each shard that mandate owns
//	         └─ mandate-prober ─── sh ── ...        shell commands of probes
//
// A process group is not enough: timeout(1), `set -m` and setsid(1) create groups and sessions of
// their own, and the parent of a daemon is process 1. Therefore the commands' parent is the helper,
// which adopts every orphan below it (as a Linux subreaper), and starts before mandate campaigns.
//
// The helper kills the processes of a term at its end (SIGTERM, the grace, SIGKILL), when mandate has
// not extended the deadline (SIGSTOP), and when mandate is dead (the pipe between them ends): then it
// releases the locks when no child is left, so that no candidate waits for a lease. When the helper
// was killed, the kernel kills the commands; mandate, which is a subreaper as well, kills the other
// descendants. What a helper does not kill that nothing wakes, as under a debugger, mandate kills as
// well. So any one of the processes may be killed or stopped. If mandate and the helper are,
// descendants may outlive the lease: then only the fencing token protects.
//
// `mandate supervise` is the helper itself, with a program that campaigns on its own below it. The
// remaining limits are in the help of `mandate run`. Unix systems other than Linux have no
// subreapers: there the processes of a command are its process group, the lease of a dead mandate
// lapses, and an execve that hangs holds up the helper.
package supervise

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// HelperName is the name under which this program is started as the helper. It doesn't contain
// "mandate run", so that `pkill -f 'mandate run'` doesn't kill the helper along with mandate.
const HelperName = "mandate-helper"

// ErrStart means that the helper could not be started, which is not the command's fault.
var ErrStart = errors.New("can't start a process")

// Setup is what the helper is for. It is sent on a pipe: no command line or environment of the helper may
// hold the passwords of the nodes.
type Setup struct {
	Path       string // of the command
	Argv       []string
	Env        []string       // of the command; Begin sets it
	StopSignal syscall.Signal // in place of SIGTERM; may be 0

	// Nodes are the URLs of the Redis nodes, on which the helper releases the terms of a mandate that
	// was killed.
	Nodes []string

	LogJSON bool // the format of the helper's log

	After int // Begin sets it: the last id of an earlier helper's command
}

// helperVariables are what the helper has of mandate's environment, in which passwords may be: settings of
// Go's runtime, of TLS, of the resolver, and of the time in its log. What else it needs is in Setup, or
// inherited: the working directory (of a relative ca_file), and stderr. Commands and probes get all
// that mandate was started with: environment, working directory, umask, limits, signals that are ignored.
var helperVariables = []string{
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GORACE", "GOCOVERDIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES", "TZ", "ZONEINFO",
}

func helperEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(helperVariables, name)
	})
}

// Instant is a reading, in nanoseconds, of a clock that all processes of this machine share and
// that no user can set. The wall clock would not do: if it was stepped back by an hour, the helper
// would wait for that hour.
type Instant int64

// Now reads the clock.
func Now() Instant {
	var ts unix.Timespec
	_ = unix.ClockGettime(clock, &ts) // it fails on no system that Go supports
	return Instant(ts.Nano())
}

// Add returns the instant that is d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Until returns the time that is left until i, negative when it has passed.
func Until(i Instant) time.Duration { return i.Sub(Now()) }
