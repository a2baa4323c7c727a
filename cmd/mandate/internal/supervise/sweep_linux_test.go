package supervise

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"testing"
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
