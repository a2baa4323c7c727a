//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/examples/internal/process"
)

// As README.md has it: two replicas, one does the job, a stop hands over.
func TestProgram(t *testing.T) {
	program, url := process.Build(t), process.RedisURL(t)
	a := process.Start(t, program, url)
	a.Says(t, 2, "msg=working")
	b := process.Start(t, program, url)
	a.Says(t, 3, "msg=working")
	if strings.Contains(b.Logged(), "msg=working") {
		t.Fatalf("both work:\n%s", b.Logged())
	}
	a.Stop(t)
	if !strings.Contains(a.Logged(), "shutdown") {
		t.Errorf("it does not say why it stopped:\n%s", a.Logged())
	}
	b.Says(t, 2, "msg=working")
	b.Stop(t)
}

func TestBadURL(t *testing.T) {
	p := process.Start(t, process.Build(t), "http://127.0.0.1")
	if code := p.ExitCode(); code != 1 || !strings.Contains(p.Logged(), "http") {
		t.Errorf("exit code %d:\n%s", code, p.Logged())
	}
}

func TestHelp(t *testing.T) {
	p := process.Start(t, process.Build(t), "--help")
	if code := p.ExitCode(); code != 0 || !strings.Contains(p.Logged(), "usage: worker [URL...]") {
		t.Errorf("exit code %d:\n%s", code, p.Logged())
	}
}
