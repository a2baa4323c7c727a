package supervise

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limits are what bounds the number of commands of one mandate.
type limits struct {
	tasks  uint64 // processes and threads of this user; they count together
	cgroup uint64 // the same, of this cgroup and those above it
	files  uint64 // open files of this process
}

// What one command takes at least: its guard and its reaper are programs of up to ten threads
// each, and mandate holds their pipes. Rounded up.
const (
	tasksOfOne = 16
	filesOfOne = 8
	filesOfAll = 100 // connections to Redis, HTTP clients
)

// Room is an error that says what to do when this machine does not let this process run so
// many commands at a time: it would fail when it has to.
func Room(commands int) error { return readLimits().room(commands) }

func (l limits) room(commands int) error {
	tasks := uint64(max(commands, 0)) * tasksOfOne
	files := uint64(max(commands, 0))*filesOfOne + filesOfAll
	switch {
	case tasks > l.tasks:
		return fmt.Errorf("%d commands with their helpers are %d processes and threads, and ulimit -u allows %d: raise it (LimitNPROC= in a systemd unit)", commands, tasks, l.tasks)
	case tasks > l.cgroup:
		return fmt.Errorf("%d commands with their helpers are %d processes and threads, and pids.max of the cgroup allows %d: raise it (TasksMax= in a systemd unit, --pids-limit of a container)", commands, tasks, l.cgroup)
	case files > l.files:
		return fmt.Errorf("%d commands need %d open files, and ulimit -n allows %d: raise it (LimitNOFILE= in a systemd unit)", commands, files, l.files)
	}
	return nil
}

func readLimits() limits {
	l := limits{tasks: math.MaxUint64, cgroup: math.MaxUint64, files: math.MaxUint64}
	var r unix.Rlimit
	if os.Geteuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &r) == nil { // root is exempt
		l.tasks = r.Cur
	}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		l.files = r.Cur
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	dir, err := findCgroup(string(groups), string(mounts))
	for ; err == nil; dir = filepath.Dir(dir) {
		text, rerr := os.ReadFile(filepath.Join(dir, "pids.max"))
		if rerr != nil { // the root has none
			break
		}
		if n, nerr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); nerr == nil { // or it is max
			l.cgroup = min(l.cgroup, n)
		}
	}
	return l
}
