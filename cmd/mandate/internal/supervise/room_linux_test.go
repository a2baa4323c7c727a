package supervise

import (
	"math"
	"strings"
	"syscall"
	"testing"
)

func TestRoom(t *testing.T) {
	plenty := limits{math.MaxUint64, math.MaxUint64, math.MaxUint64}
	tasks, cgroup, files := plenty, plenty, plenty
	tasks.tasks, cgroup.cgroup, files.files = 1200, 1200, 500
	for _, tc := range []struct {
		limits limits
		fit    int
		want   string
	}{{tasks, 100, "ulimit -u allows 1200"}, {cgroup, 100, "pids.max of the cgroup allows 1200"}, {files, 100, "ulimit -n allows 500"}} {
		if err := tc.limits.room(tc.fit); err != nil {
			t.Errorf("%d commands: %v", tc.fit, err)
		}
		if err := tc.limits.room(tc.fit + 1); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d commands: %v, want %q", tc.fit+1, err, tc.want)
		}
	}
	if err := plenty.room(16384); err != nil {
		t.Error(err)
	}
}

// The limits are those of this process.
func TestRoomOfThisProcess(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 300, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	if err := Room(51); err == nil || !strings.Contains(err.Error(), "ulimit -n allows 300") {
		t.Errorf("51 commands: %v", err)
	}
}
