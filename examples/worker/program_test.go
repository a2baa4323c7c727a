//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/examples/internal/exampletest"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// process is a running example and what it has logged.
type process struct {
	*exec.Cmd
	servertest.Logbook
}

// start runs the program until the test ends.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	p.Stderr = &p.Logbook
	servertest.Must(t, p.Start())
	return p
}

// works waits until the process has done its job n times.
func (p *process) works(t *testing.T, n int) {
	t.Helper()
	servertest.Eventually(t, 30*time.Second, "the job is done", func() bool { return len(p.Lines("msg=working")) >= n })
}

// stop sends SIGTERM, as a deploy does, and fails the test unless the process exits with 0.
func (p *process) stop(t *testing.T) {
	t.Helper()
	servertest.Must(t, p.Process.Signal(syscall.SIGTERM))
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &p.Logbook)
	}
}

// As README.md has it: two replicas, one does the job, a stop hands over.
func TestProgram(t *testing.T) {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	url := "redis://" + m.Addr()
	a := start(t, url)
	a.works(t, 2)
	b := start(t, url)
	a.works(t, 3)
	if len(b.Lines("msg=working")) > 0 {
		t.Fatalf("both work:\n%s", &b.Logbook)
	}
	a.stop(t)
	if len(a.Lines("shutdown")) == 0 {
		t.Errorf("it does not say why it stopped:\n%s", &a.Logbook)
	}
	b.works(t, 2)
	b.stop(t)
	if p := start(t, "http://127.0.0.1"); p.Wait() == nil || !strings.Contains(p.Logbook.String(), "is not known: use redis") {
		t.Errorf("a bad URL:\n%s", &p.Logbook)
	}
}
