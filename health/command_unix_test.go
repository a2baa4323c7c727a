//go:build unix

package health

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCommandProbe(t *testing.T) {
	for _, c := range []struct {
		script string
		want   string
	}{
		{"exit 0", ""},
		{"echo fine; exit 0", ""},
		{"echo first; echo 'queue stuck' >&2; echo; exit 3", "command sh: exit code 3: queue stuck"},
		{"exit 1", "command sh: exit code 1"},
		{"kill -9 $$", "signal: killed"},
		{"head -c 100000 /dev/zero | tr '\\0' x; exit 2", "exit code 2: " + strings.Repeat("x", maxExcerpt) + "..."},
		{"printf 'a\\033[31mb'; exit 2", "exit code 2: a [31mb"},
		{"cat; exit $?", ""}, // stdin is empty, not the terminal
	} {
		err := Command("sh", "-c", c.script).Check(t.Context())
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.script, err)
			}
			continue
		}
		wantMessage(t, err, c.want)
	}
	wantMessage(t, Command("/does/not/exist").Check(t.Context()), "no such file")
}

func TestCommandThatHangsIsKilledWithItsGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		// The inner sleep is a grandchild which holds the output.
		done <- Command("sh", "-c", `echo working; sleep 100 & echo $$ $! > "$0.new"; mv "$0.new" "$0"; wait`, file).Check(ctx)
	}()
	var pids []byte
	for range 6000 {
		if b, err := os.ReadFile(file); err == nil {
			pids = b
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	from := time.Now()
	err := <-done
	if took := time.Since(from); took > 50*time.Second { // the sleep takes longer
		t.Errorf("took %s", took)
	}
	wantMessage(t, err, "killed after", "context canceled", "working")
	fields := strings.Fields(string(pids))
	if len(fields) != 2 {
		t.Fatalf("pids: %q", pids)
	}
	for _, field := range fields {
		pid, err := strconv.Atoi(field)
		must(t, err)
		gone := false
		for range 3000 {
			if gone = !running(pid); gone {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !gone {
			t.Errorf("process %d still runs", pid)
		}
	}
}

// running is false for a process that is gone, or is dead and waits for the init process,
// which in a container may never reap it. Our own child must be gone altogether.
func running(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[0] != "Z" || fields[1] == strconv.Itoa(os.Getpid())
}
