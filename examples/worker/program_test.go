//go:build unix

package main

import (
	"strings"
	"testing"
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
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.logged(), "http") {
		t.Errorf("exit code %d:\n%s", code, p.logged())
	}
}
