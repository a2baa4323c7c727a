package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// job is the command that a leader runs.
type job struct {
	path         string
	argv         []string
	once         bool
	election, id string
	httpToken    string
	http         string // where the command can ask; empty: nowhere

	// In this order before the lease ends: the work is told, grace passes, the
	// group is killed, and kill is the time that this may take.
	lease, grace, kill time.Duration

	hurry <-chan struct{}    // closed by the second signal
	stop  context.CancelFunc // ends the program well
	log   *slog.Logger
}

// work is one term: it starts the command and returns when no process of its
// group is left, so that the lock is never released under a running command.
func (j *job) work(ctx context.Context, term *elector.Term) error {
	token := strconv.FormatUint(term.Token(), 10)
	env := []string{"MANDATE_ELECTION=" + j.election, "MANDATE_ID=" + j.id, "MANDATE_TOKEN=" + token}
	if j.http != "" {
		env = append(env, "MANDATE_HTTP="+j.http)
	}
	c, err := startChild(j.path, j.argv, env, j.until(term))
	if err != nil {
		return notStarted(j.argv[0], err)
	}
	defer c.dismissGuard()
	log := j.log.With("token", term.Token(), "pid", c.pid)
	log.Info("command started")
	began := time.Now()

	byItself := j.attend(ctx, term, c, log)
	j.end(c, log)
	if !byItself {
		log.Info("command stopped", "status", c.state.String(), "ran_for", time.Since(began).Round(time.Millisecond))
		return nil
	}
	code := exitCode(c)
	level := slog.LevelInfo
	if code != 0 {
		level = slog.LevelWarn // a command that fails again and again must not look like one that is done
	}
	log.Log(ctx, level, "command ended by itself", "status", c.state.String(), "code", code, "ran_for", time.Since(began).Round(time.Millisecond))
	switch {
	case j.once && code == 0:
		context.AfterFunc(ctx, j.stop) // the term ends because the work is done; then the program may
		return nil
	case j.once:
		return &exitError{code: code, err: fmt.Errorf("the command ended with code %d", code), quiet: true}
	default:
		return nil
	}
}

// attend waits for the end of the command or of the term, and keeps the guard
// informed meanwhile. It tells whether the command ended by itself, within a
// valid term.
func (j *job) attend(ctx context.Context, term *elector.Term, c *child, log *slog.Logger) (byItself bool) {
	tick := time.NewTicker(j.tell())
	defer tick.Stop()
	guard := c.guard.gone
	for {
		select {
		case <-c.exited:
			return term.Valid() && (guard == nil || !c.killedByGuard())
		case <-ctx.Done():
			return false
		case <-guard:
			guard = nil
			switch {
			case !term.Valid():
				log.Warn("mandate was stopped beyond its lease: the guard has killed the command meanwhile")
			case c.killedByGuard():
				log.Warn("the guard has killed the command: it had not heard from mandate in time")
				return false
			default:
				log.Warn("the guard process ended: if mandate is killed now, the command's children may live on")
			}
		case <-tick.C:
			// Valid is asked last: were we stopped after it, until would count from our
			// return. When it is not, we were stopped until now, and the guard knows best.
			if until := j.until(term); term.Valid() {
				c.tellGuard(until)
			}
		}
	}
}

// until is when the guard kills the command if nothing more is heard from us: a
// little later than we would, and before the lease ends. Deadline is a wall time,
// and wall clocks step; while the term is valid, the truth lies within these bounds.
func (j *job) until(term *elector.Term) time.Time {
	now := time.Now()
	return now.Add(min(max(time.Until(term.Deadline())+j.patience(), j.patience()), j.lease))
}

// tell is how often the guard is told: often enough for the least that until gives.
func (j *job) tell() time.Duration { return min(j.lease/16, j.patience()/3) }

// patience is how long the guard waits for our own end of the group.
func (j *job) patience() time.Duration { return j.grace + j.kill/4 }

// end stops what is left of the process group: SIGTERM, the grace, SIGKILL. It
// returns when the group is empty. The term ends grace+kill before its lease
// does, so all this is over in time; the grace is shorter when we come late,
// because somebody stopped us (SIGSTOP) for a part of that time.
func (j *job) end(c *child, log *slog.Logger) {
	left := min(j.patience(), time.Until(c.until))
	c.tellGuard(time.Now().Add(left))
	if c.gone() {
		return
	}
	grace := time.NewTimer(max(0, left-j.kill/4))
	defer grace.Stop()
	if left > 0 && !c.hasExited() {
		log.Info("stopping the command", "grace", max(0, left-j.kill/4).Round(time.Millisecond))
	}
	c.terminate()
	if c.awaitGone(grace.C, j.hurry) {
		return
	}
	if left > 0 {
		log.Warn("command did not stop: killing its process group")
	}
	c.killGroup()
	giveUp := time.NewTimer(j.lease)
	defer giveUp.Stop()
	if !c.awaitGone(giveUp.C, nil) {
		log.Error("processes of the command's group are still there after SIGKILL", "group", c.pid)
		<-c.exited
	}
}

// exitCode is the code that a shell would give.
func exitCode(c *child) int {
	if ws, ok := c.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return c.state.ExitCode()
}

// notStarted tells what a shell would tell about a command that can't be run.
func notStarted(name string, err error) error {
	code, why := exitNotRunnable, trimWords(err)
	switch {
	case errors.Is(err, errStart):
		return err
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		code, why = exitNotFound, "not found"
		if strings.Contains(name, "/") {
			why = "no such file (or the program that its first line names is missing)"
		}
	case errors.Is(err, exec.ErrDot):
		code, why = exitNotFound, "found in the current directory only: write ./"+name
	case errors.Is(err, syscall.ENOEXEC):
		why = "neither a program of this machine nor a script with a #! line"
	case errors.Is(err, fs.ErrPermission):
		why = "not executable (chmod +x?)"
	}
	return &exitError{code: code, err: fmt.Errorf("can't run %q: %s", name, why)}
}

// trimWords takes the names of packages and functions from an error.
func trimWords(err error) string {
	s := err.Error()
	for _, prefix := range []string{"health: HTTP probe: ", "health: TCP probe: ", "fork/exec "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}
