//go:build unix

package main

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

// As README.md has it: two replicas, one does the job, a stop hands over.
func TestProgram(t *testing.T) {
	program, url := build(t), redisURL(t)
	a := start(t, program, url)
	a.says(t, 2, "msg=working")
	b := start(t, program, url)
	a.says(t, 3, "msg=working")
	if strings.Contains(b.logged(), "msg=working") {
		t.Fatalf("both work:\n%s", b.logged())
	}
	a.stop(t)
	if !strings.Contains(a.logged(), "shutdown") {
		t.Errorf("it does not say why it stopped:\n%s", a.logged())
	}
	b.says(t, 2, "msg=working")
	b.stop(t)
}

func TestBadURL(t *testing.T) {
	p := start(t, build(t), "http://127.0.0.1")
	if code := p.exitCode(); code != 1 || !strings.Contains(p.logged(), "http") {
		t.Errorf("exit code %d:\n%s", code, p.logged())
	}
}

func TestHelp(t *testing.T) {
	p := start(t, build(t), "--help")
	if code := p.exitCode(); code != 0 || !strings.Contains(p.logged(), "usage: worker [URL...]") {
		t.Errorf("exit code %d:\n%s", code, p.logged())
	}
}

// process is a running example and what it has logged.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	mu  sync.Mutex
	log strings.Builder
}

// Write receives the standard error of the process.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// logged returns what the process has logged so far.
func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start runs a program until the test ends.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
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

// says waits until the process has logged word at least n times.
func (p *process) says(t *testing.T, n int, word string) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); strings.Count(p.logged(), word) < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("did not log %q %d times:\n%s", word, n, p.logged())
		}
	}
}

// stop sends SIGTERM, as a deploy does, and fails the test unless the process exits with 0.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("it did not end:\n%s", p.logged())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, p.logged())
	}
}

// exitCode waits for the process to end, and returns its exit code.
func (p *process) exitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// build builds the program in the directory of the test.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "example")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// redisURL returns the URL of an embedded Redis on loopback, whose leases expire by the clock.
func redisURL(t *testing.T) string {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return "redis://" + m.Addr()
}
