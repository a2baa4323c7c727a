package servertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startLimit is how long a server may take to start, on a small and busy machine.
const startLimit = 60 * time.Second

// missing skips the test, or fails it if the environment variable requires the server.
func missing(t testing.TB, server, variable, install string) {
	t.Helper()
	if os.Getenv(variable) == "1" {
		t.Fatalf("%s is required (%s=1) and was not found: install it (Debian: %s)", server, variable, install)
	}
	t.Skipf("SKIPPED: no %s was found: nothing here was tested against a real one. Install it (Debian: %s)", server, install)
}

// NeedProgram returns the path of the first of the programs that is installed. If none is, the
// test is skipped, or fails if the variable MANDATE_TEST_REQUIRE_<NAME> is "1", where <NAME> is the
// first name in capitals, with _ for each -. install is the command that installs the program.
func NeedProgram(t testing.TB, install string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	variable := "MANDATE_TEST_REQUIRE_" + strings.ToUpper(strings.ReplaceAll(names[0], "-", "_"))
	missing(t, names[0], variable, install)
	return ""
}

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	out  *Logbook
	gone chan struct{} // closed when the process has ended and was reaped
}

// launch starts a server and waits until it has printed that it is ready.
func launch(t testing.TB, cmd *exec.Cmd, ready string) *process {
	t.Helper()
	p := &process{cmd: cmd, out: &Logbook{}, gone: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = orphan()
	}
	Must(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the process was killed, or did not start properly: out shows which
		close(p.gone)
	}()
	for limit := time.Now().Add(startLimit); !strings.Contains(p.out.String(), ready); {
		select {
		case <-p.gone:
			t.Fatalf("%s ended at its start:\n%s", filepath.Base(cmd.Path), p.out)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(limit) {
			p.kill()
			t.Fatalf("%s is not ready after %v:\n%s", filepath.Base(cmd.Path), startLimit, p.out)
		}
	}
	return p
}

// kill ends the process with SIGKILL, even if it is stopped, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that the process has ended already
	<-p.gone
}

// end lets the process shut down, and kills it after 10 s. The signal by should be the one for a
// shutdown that does not wait for clients.
func (p *process) end(by os.Signal) {
	_ = p.cmd.Process.Signal(by)
	select {
	case <-p.gone:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}
