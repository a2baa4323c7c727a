package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/health"
)

// hangs waits until the execve of a process hangs.
func hangs(t *testing.T, p *Process) {
	t.Helper()
	await(t, "an execve that hangs", func() bool {
		if p.HasExited() {
			t.Fatalf("it has ended: %v, %v", p.Status, p.Failed)
		}
		where, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", p.PID))
		if err != nil {
			t.Skip("no /proc/PID/syscall here: ", err)
		}
		return strings.HasPrefix(string(where), fmt.Sprint(unix.SYS_EXECVE, " "))
	})
}

// While the execve of one command hangs, the helper obeys, reaps and kills: another command's deadline is kept, and its
// end is known. The one that hangs ends like any other, at its deadline or when mandate stops it, and its program does
// not run a moment later, when the hang is over.
func TestSlowExec(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	must(t, os.Symlink("/bin/sh", program))
	h := newHelperOf(t, program, evalScript...)
	late, pids := h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	stopped, _ := h.run(t, 1, "echo $$ >>$PIDS; sleep 60")
	free := servertest.HungShell(t, filepath.Join(dir, "slow"))
	must(t, errors.Join(os.Remove(program), os.Symlink("slow", program)))
	var slow []*Process
	for range 3 {
		p, err := h.Start([]string{"SCRIPT=touch " + filepath.Join(dir, "ran")}, Now().Add(time.Hour))
		must(t, err)
		<-p.Started
		hangs(t, p)
		slow = append(slow, p)
	}
	late.Extend(Now())
	stopped.Stop(Now())
	slow[0].Extend(Now())
	slow[1].Stop(Now().Add(time.Hour))
	began := time.Now()
	for _, p := range []*Process{late, stopped, slow[0], slow[1]} {
		isGone(t, p)
	}
	if took := time.Since(began); took > 20*time.Second { // the kernel breaks the lease after 45 s
		t.Errorf("gone after %v", took)
	}
	noneLeft(t, append(pids, slow[0].PID, slow[1].PID))
	hangs(t, slow[2])
	kill(t, slow[2])
	free()
	time.Sleep(50 * time.Millisecond)
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a program has run after its deadline")
	}
}

// A helper that was killed while an execve hangs is known to be dead, and so is what it has started.
func TestSlowExecOfAKilledHelper(t *testing.T) {
	slow := filepath.Join(t.TempDir(), "slow")
	servertest.HungShell(t, slow)
	h := newHelperOf(t, slow, evalScript...)
	p, err := h.Start(nil, Now().Add(time.Hour))
	must(t, err)
	<-p.Started
	hangs(t, p)
	_ = h.cmd.Process.Kill()
	if isGone(t, p); !p.Orphan || !gone(p.PID) {
		t.Error("it lives")
	}
}

// The shell commands of probes run in a process of their own: while the execve of one hangs, this process collects
// garbage. A check does not hang longer than it may, and no other is started beside it: they would all run when the hang
// is over. The next one after the death of that process finds another.
func TestProber(t *testing.T) {
	dir := t.TempDir()
	free := servertest.HungShell(t, filepath.Join(dir, "sh"))
	p := &Prober{}
	check := func(limit time.Duration, script string) string {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if err := p.Probe(script).Check(ctx); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := check(waitLimit, "echo first; echo stuck >&2; exit 3"); got != "command sh: exit code 3: stuck" {
		t.Errorf("a probe that fails: %q", got)
	}
	if got := check(200*time.Millisecond, "echo working; sleep 60"); !strings.HasSuffix(got, ": context deadline exceeded: working") {
		t.Errorf("a probe that hangs: %q", got)
	}
	kill := func() {
		t.Helper()
		for _, q := range descendants() {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", q.pid)); string(name) == proberName+"\n" {
				_ = syscall.Kill(q.pid, syscall.SIGKILL)
			}
		}
	}
	kill()
	await(t, "a probe after the death of the process", func() bool { return check(waitLimit, "exit 0") == "" })

	kill()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var hung health.Probe
	ran := filepath.Join(dir, "ran")
	again := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		return hung.Check(ctx)
	}
	await(t, "a prober with another path", func() bool {
		hung = health.All(p.Probe("echo >>" + ran))
		return again() != nil
	})
	_ = os.Remove(ran)
	began := time.Now()
	for range 6 {
		if again() == nil {
			t.Error("a probe has passed whose execve hangs")
		}
		runtime.GC()
		time.Sleep(150 * time.Millisecond) // its interval
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("held up for %v", took)
	}
	free()
	await(t, "a probe whose execve hangs no more", func() bool { return again() == nil })
	if all, _ := os.ReadFile(ran); len(all) > 2 {
		t.Errorf("%d have run", len(all))
	}
}

// A helper that was reaped elsewhere counts as killed, also if what it has started holds its pipe.
func TestHelperIsReapedElsewhere(t *testing.T) {
	cmd := exec.Command("true")
	must(t, cmd.Start())
	if _, err := syscall.Wait4(cmd.Process.Pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	h, err := NewHelper()
	must(t, err)
	p := newProcess(h, forever)
	h.running[1] = p
	reports, w, err := os.Pipe()
	must(t, err)
	defer w.Close() // a child whose execve hangs, and does not react to SIGKILL, has it
	go h.follow(cmd, reports, make(chan struct{}))
	if isGone(t, p); !p.Orphan {
		t.Error("its command counts as running")
	}
}
