// Package servertest starts real servers for tests: on a free port of the loopback
// interface, in a directory of their own, ended with the test. A missing server is
// a loud skip, and a failure where it is required (as in CI).
//
// It serves the tests of this module: its names may change without notice.
package servertest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is for a start on a small and busy machine.
const patience = 60 * time.Second

// missing skips, or fails when the variable says that the server is required.
func missing(t testing.TB, server, variable, install string) {
	t.Helper()
	if os.Getenv(variable) == "1" {
		t.Fatalf("%s is required (%s=1) and was not found: install it (Debian: %s)", server, variable, install)
	}
	t.Skipf("SKIPPED: no %s was found: nothing here was tested against a real one. Install it (Debian: %s)", server, install)
}

// FreePort is a port of the loopback interface on which nobody listens.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// launch starts a server and waits until it has said that it is ready. The signal
// is what ends it without waiting for its clients. kill ends it without a word.
func launch(t testing.TB, cmd *exec.Cmd, ready string, end os.Signal) (kill func()) {
	t.Helper()
	out := &buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(end)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	for limit := time.Now().Add(patience); !strings.Contains(out.String(), ready); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("%s ended: %s", cmd.Path, out)
		default:
		}
		if time.Now().After(limit) {
			t.Fatalf("%s is not ready after %v: %s", cmd.Path, patience, out)
		}
	}
	return func() {
		_ = cmd.Process.Kill()
		<-ended
	}
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
