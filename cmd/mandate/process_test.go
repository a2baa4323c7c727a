//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

// dead PID... waits for the end of processes. With -since-stop D it must come at
// most D after Redis, or a candidate, was stopped. A zombie is dead; that mandate
// leaves none is checked with `reaped PID...`.
func cmdDead(ts *testscript.TestScript, neg bool, args []string) {
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
		if neg {
			if err := syscall.Kill(pid, 0); err != nil {
				ts.Fatalf("process %d is dead: %v", pid, err)
			}
			continue
		}
		var seen time.Time // alive
		last := time.Now()
		ts.Check(poll(func() error {
			at := time.Now()
			// What a busy machine lets this process wait, it lets the guard wait, too.
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

// deadfile FILE...: the processes whose numbers stand there are dead, now.
func cmdDeadFile(ts *testscript.TestScript, _ bool, args []string) {
	for _, arg := range args {
		pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(arg)))
		ts.Check(err)
		if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
			ts.Fatalf("process %d lives", pid)
		}
	}
}

// reaped PID...: no trace of a process is left, not even a zombie.
func cmdReaped(ts *testscript.TestScript, _ bool, args []string) {
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		ts.Check(err)
		ts.Check(poll(func() error {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d is still there, a zombie: %v", pid, isZombie(pid))
			}
			return nil
		}))
	}
}

// guard NAME puts the number of a candidate's guard into $GUARD.
func cmdGuard(ts *testscript.TestScript, _ bool, args []string) {
	parent := valuesOf(ts).candidates[args[0]].cmd.Process.Pid
	ts.Check(poll(func() error {
		guards := helpersOf(parent, supervise.GuardName)
		if len(guards) != 1 {
			return fmt.Errorf("the guards of %s: %v", args[0], guards)
		}
		ts.Setenv("GUARD", strconv.Itoa(guards[0]))
		return nil
	}))
}

// helpersOf are the living children of a process with this argv[0].
func helpersOf(parent int, name string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		argv, _ := os.ReadFile(file)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		if string(argv) != name+"\x00" || len(f) < 2 || f[1] != strconv.Itoa(parent) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		pids = append(pids, pid)
	}
	return pids
}

func isZombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}

// The guard's deadline is extended often enough for the shortest that until gives, with any
// grace: after a step of the wall clock that is endTime.
func TestGuardIsExtendedInTime(t *testing.T) {
	for _, lease := range []time.Duration{50 * time.Millisecond, 10 * time.Second, time.Hour} {
		for _, grace := range []time.Duration{0, lease / 100, lease / 3} {
			j := &job{lease: lease, grace: grace, kill: killTime(lease)}
			// It gives mandate the whole grace to end the command, and keeps within what
			// the term ends before its lease does.
			if j.endTime() <= j.grace || j.endTime() >= j.grace+j.kill {
				t.Errorf("lease %v, grace %v: the guard waits for %v, of %v", lease, grace, j.endTime(), j.grace+j.kill)
			}
			if j.extendEvery() > j.endTime()/2 {
				t.Errorf("lease %v, grace %v: extended every %v to %v", lease, grace, j.extendEvery(), j.endTime())
			}
		}
	}
}
