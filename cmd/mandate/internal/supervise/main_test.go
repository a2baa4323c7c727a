//go:build unix

package supervise

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if Dispatch() {
		return
	}
	os.Exit(m.Run())
}

// waitLimit is how long the tests wait for what should happen: far more than it takes.
const waitLimit = 30 * time.Second

// start runs a shell script that notes the numbers of its processes (one a line) in
// the file $PIDS, and waits until there are n.
func start(t *testing.T, n int, script string) (p *Process, pids []int) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // built with -race the helper would take a second to end
	file := filepath.Join(t.TempDir(), "pids")
	p, err := Start(Command{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: append(os.Environ(), "PIDS="+file)}, Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sweep(t, file) // first: a Kill that is broken must not be waited for
		p.Kill(time.After(waitLimit))
		p.Close()
	})
	await(t, "the numbers of the processes", func() bool {
		pids = numbers(t, file)
		return len(pids) >= n
	})
	return p, pids
}

// numbers reads a file of them.
func numbers(t *testing.T, file string) (pids []int) {
	t.Helper()
	text, _ := os.ReadFile(file)
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// sweep ends what a failed test has left behind: every process whose environment holds the name of a
// file of the test's own. Without /proc the scripts end after a minute.
func sweep(t *testing.T, file string) {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		environ, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if pid != os.Getpid() && bytes.Contains(environ, []byte("="+file+"\x00")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, waitLimit)
		}
	}
}

// reaped reports whether no trace of a process is left.
func reaped(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func noneLeft(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if !reaped(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// sibling is a process that none of this concerns.
func sibling(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.Process.Kill() != nil {
			t.Error("a process that is none of the command's was killed")
		}
		cmd.Wait()
	})
	return cmd
}
