package supervise

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// sweep ends what a test has left behind, as it does when it fails: every process whose
// environment holds the name of a file of the test's own. A process that is told to
// ignore all signals would else trouble the machine until its script ends.
func sweep(t *testing.T, file string) {
	t.Helper()
	await(t, "the end of what the test has started", func() bool {
		all, err := processes()
		if err != nil {
			t.Fatal(err)
		}
		clean := true
		for _, p := range all {
			environ, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
			if !p.dead && p.pid != os.Getpid() && bytes.Contains(environ, []byte("="+file+"\x00")) {
				clean = false
				_ = signalOne(p, syscall.SIGKILL)
			}
		}
		return clean
	})
}

// stop stops a process, and waits until it is stopped: kill(2) returns before that, and until then another thread of
// it may act on what comes next.
func stop(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for p, ok := readProcess(pid); ok && !p.dead && !p.stopped; p, ok = readProcess(pid) {
		time.Sleep(time.Millisecond)
	}
}
