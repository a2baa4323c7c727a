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

// limits bound the number of commands of one mandate.
type limits struct {
	tasks  uint64 // processes and threads of this user; they count together
	cgroup uint64 // the same for this cgroup and those above it
	files  uint64 // open files of this process
}

// These are what one command needs at least, rounded up: its helper has up to ten threads, and mandate
// holds its pipes.
const (
	tasksOfOne = 12
	filesOfOne = 4
	filesOfAll = 100 // connections to Redis, HTTP clients
)

// Room returns an error, with advice, if the limits of this machine do not allow this process to
// run so many commands at a time. Otherwise it would fail only when it has to run them.
func Room(commands int) error { return readLimits().room(commands) }

func (l limits) room(commands int) error {
	tasks := uint64(max(commands, 0)) * tasksOfOne
	files := uint64(max(commands, 0))*filesOfOne + filesOfAll
	switch {
	case tasks > l.tasks:
		return fmt.Errorf("%d commands with a helper each are %d processes and threads, and ulimit -u allows %d: raise it (LimitNPROC= in a systemd unit)", commands, tasks, l.tasks)
	case tasks > l.cgroup:
		return fmt.Errorf("%d commands with a helper each are %d processes and threads, and pids.max of the cgroup allows %d: raise it (TasksMax= in a systemd unit, --pids-limit of a container)", commands, tasks, l.cgroup)
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
	_, path, _ := strings.Cut(string(groups), "0::") // of version 2
	for dir := filepath.Join("/sys/fs/cgroup", strings.TrimSpace(path)); ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "pids.max"))
		if err != nil { // the root cgroup has no limit
			return l
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil { // otherwise it is "max"
			l.cgroup = min(l.cgroup, n)
		}
	}
}
