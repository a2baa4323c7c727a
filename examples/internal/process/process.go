//go:build unix

// Package process runs the examples as processes for their tests.
package process

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Process is a running example and what it has logged.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	mu  sync.Mutex
	log strings.Builder
}

// Write receives the standard error of the process.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// Logged returns what the process has logged so far.
func (p *Process) Logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Start runs a program until the test ends.
func Start(t *testing.T, program string, args ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if the process has ended already
		<-p.done
	})
	return p
}

// Says waits until the process has logged word at least n times.
func (p *Process) Says(t *testing.T, n int, word string) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); strings.Count(p.Logged(), word) < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("did not log %q %d times:\n%s", word, n, p.Logged())
		}
	}
}

// Stop sends SIGTERM, as a deploy does, and fails the test unless the process exits with 0.
func (p *Process) Stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("it did not end:\n%s", p.Logged())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, p.Logged())
	}
}

// ExitCode waits for the process to end, and returns its exit code.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Build builds the program in the directory of the test.
func Build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "example")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// RedisURL returns the URL of an embedded Redis on loopback, whose leases expire by the clock.
func RedisURL(t *testing.T) string {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return "redis://" + m.Addr()
}
