//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

// startMandate starts a mandate in a folder, on these nodes.
func startMandate(t testing.TB, dir, urls string, stderr *os.File, env []string, args ...string) *running {
	t.Helper()
	cmd := exec.Command("mandate", args...)
	cmd.Dir, cmd.Stderr = dir, stderr
	cmd.Env = append(append(os.Environ(), "MANDATE_REDIS="+urls, "GORACE="+noExitPause), env...)
	r, err := begin(cmd)
	must(t, err)
	return r
}

// dead PID... waits for the end of processes. With -since-stop D it must come at
// most D after Redis, or a candidate, was stopped. A zombie is dead; that mandate
// leaves none is checked with `until sh -c '! kill -0 PID'`.
func cmdDead(ts *testscript.TestScript, _ bool, args []string) {
	var limit time.Time
	bounded := args[0] == "-since-stop"
	if bounded {
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		limit = valuesOf(ts).stoppedAt.Add(d)
		args = args[2:]
	}
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		ts.Check(err)
		var seen time.Time // alive
		last := time.Now()
		ts.Check(poll(func() error {
			at := time.Now()
			// What a busy machine lets this process wait, it lets the helper wait, too.
			if late := at.Sub(last) - pollEvery; late > pollEvery {
				limit = limit.Add(late)
			}
			last = at
			if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
				seen = at
				return fmt.Errorf("process %d lives", pid)
			}
			return nil
		}))
		if bounded && seen.After(limit) {
			ts.Fatalf("process %d lived %v beyond the lease", pid, seen.Sub(limit))
		}
	}
}

// helpersOf are the living helpers of a mandate.
func helpersOf(mandate int) (pids []int) { return childrenOf(mandate, supervise.HelperName+"\x00") }

// childrenOf are the living children of a process whose command line begins like this.
func childrenOf(parent int, argv string) (pids []int) {
	return processesWhere(func(dir string) bool {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest) // state, parent
		return strings.HasPrefix(string(line), argv) && len(f) > 1 && f[1] == strconv.Itoa(parent)
	})
}

// marked are the processes whose environment holds all of env: what a command has started, wherever it is.
func marked(env ...string) (pids []int) {
	return processesWhere(func(dir string) bool {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		return !slices.ContainsFunc(env, func(v string) bool { return !strings.Contains("\x00"+string(environ), "\x00"+v+"\x00") })
	})
}

func processesWhere(is func(dir string) bool) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && is(dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isZombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}

// The helper's deadline is extended often enough for the shortest that until gives, with any
// grace: after a step of the wall clock that is endTime.
func TestHelperIsExtendedInTime(t *testing.T) {
	for _, lease := range []time.Duration{50 * time.Millisecond, 10 * time.Second, time.Hour} {
		for _, grace := range []time.Duration{0, lease / 100, lease / 3} {
			j := &job{lease: lease, grace: grace, kill: killTime(lease)}
			// It gives mandate the whole grace to end the command, and keeps within what
			// the term ends before its lease does.
			if j.endTime() <= j.grace || j.endTime() >= j.grace+j.kill {
				t.Errorf("lease %v, grace %v: the helper waits for %v, of %v", lease, grace, j.endTime(), j.grace+j.kill)
			}
			if j.extendEvery() > j.endTime()/2 {
				t.Errorf("lease %v, grace %v: extended every %v to %v", lease, grace, j.extendEvery(), j.endTime())
			}
		}
	}
}

// The lock of a command that has succeeded is held for --hold from its start, unless the term ends.
func TestHoldCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, log, began := &job{once: true, hold: time.Minute, stop: func() {}}, slog.New(slog.DiscardHandler), time.Now()
		time.Sleep(10 * time.Second)
		if err := j.exited(t.Context(), log, began, 0, ""); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("held for %v, want 1m", d)
		}
		if j.keep(t.Context(), log, began); time.Since(began) != time.Minute {
			t.Error("held beyond its time")
		}
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if j.keep(ctx, log, time.Now()); time.Since(began) != 61*time.Second {
			t.Error("held although the term has ended")
		}
	})
}

// What keeps a command from being started for a while is a failure like that of the command, from which this
// candidate, or another member, recovers. What does not pass ends mandate, as it would a shell.
func TestNotStarted(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, passes := range []error{
		syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, fmt.Errorf("%w: x", supervise.ErrStart),
	} {
		var again *elector.RestartError
		var exit *exitError
		if err := (&job{}).notStarted(t.Context(), passes); !errors.As(err, &again) || errors.As(err, &exit) {
			t.Errorf("%v: %v, want another attempt", passes, err)
		}
		if err := (&job{group: groupFlags{name: "g"}}).notStarted(t.Context(), passes); err == nil || errors.As(err, &again) || errors.As(err, &exit) {
			t.Errorf("%v, in a group: %v, want an attempt elsewhere", passes, err)
		}
		if err := (&job{}).notStarted(ended, passes); err != nil {
			t.Errorf("%v, of a term that has ended: %v", passes, err)
		}
	}
	for stays, code := range map[error]int{syscall.ENOENT: exitNotFound, syscall.EACCES: exitNotRunnable, syscall.ENOEXEC: exitNotRunnable} {
		var exit *exitError
		if err := (&job{argv: []string{"x"}}).notStarted(t.Context(), stays); !errors.As(err, &exit) || exit.code != code {
			t.Errorf("%v: %v, want exit code %d", stays, err, code)
		}
	}
}

// The pipe of the terms is named in this process's own environment for a moment only. It stayed there when the
// elector could not be made, and a program that was started then took another file for the pipe.
func TestNoPipeStaysInTheEnvironment(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--election", "e", "--lease", "1ms", "--redis", "redis://127.0.0.1:1", "--", "true"},
		{"run", "--redis", "redis://127.0.0.1:1", "--", "true"},
	} {
		var out, stderr strings.Builder
		if code := execute(t.Context(), args, &out, &stderr); code != exitUsage {
			t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
		}
		if value, set := os.LookupEnv(supervisor.Variable); set {
			t.Errorf("%q: %s is %q", args, supervisor.Variable, value)
		}
	}
}
