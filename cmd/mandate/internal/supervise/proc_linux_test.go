package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// leavers are the ways out of a process group that scripts use every day. Each starts
// a process that ignores SIGTERM and notes its number.
var leavers = map[string]string{
	"group":   `sh -c "$STUBBORN" &`,
	"timeout": `timeout 60 sh -c "$STUBBORN" &`,
	"set -m":  `bash -c 'set -m; sh -c "$STUBBORN" & exit'`,
	"setsid":  `setsid sh -c "$STUBBORN" &`,
	"daemon":  `(setsid sh -c "sh -c '$STUBBORN' & exit" & exit)`,
	"env -i":  `(PIDS= ; env -i P="$PIDSFILE" setsid sh -c "PIDS=\$P; $STUBBORN" & exit)`,
}

const stubborn = `STUBBORN='trap "" TERM HUP INT; echo $$ >>$PIDS; i=0; while [ $((i+=1)) -lt 1200 ]; do sleep 0.05; done'; export STUBBORN; PIDSFILE=$PIDS
`

func everyLeaver() string {
	script := stubborn
	for _, way := range leavers {
		script += way + "\n"
	}
	return script
}

// everyWay starts a stubborn process in each way, and then the command itself.
func everyWay(t *testing.T, h *Helper, last string) (*Process, []int) {
	t.Helper()
	return h.run(t, len(leavers)+1, everyLeaver()+"echo $$ >>$PIDS; "+last)
}

// stop stops a process, and waits until it is stopped: kill(2) returns before that.
func stop(t *testing.T, pid int) {
	t.Helper()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	await(t, "the stop", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(stat), ") T ")
	})
}

// Whatever a script starts ends with the term, also what left its process group, its session or its
// parent, and whatever ends it; and the commands of other terms, below the same helper, don't.
func TestWholeTreeIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		last string
		end  func(t *testing.T, h *Helper, p *Process)
		all  bool // it ends all commands of the helper
	}{
		"mandate ends it":        {"sleep 60", func(_ *testing.T, _ *Helper, p *Process) { p.Stop(Now()) }, false},
		"the command has ended":  {"exit 3", func(_ *testing.T, _ *Helper, p *Process) { p.Stop(Now()) }, false},
		"its deadline passes":    {"sleep 60", func(_ *testing.T, h *Helper, p *Process) { h.send(order{ID: p.id, Stop: true, Until: Now()}) }, false}, // mandate kills nothing
		"mandate is dead":        {"sleep 60", func(_ *testing.T, h *Helper, _ *Process) { h.w.Close() }, true},                                        // as the kernel does it
		"mandate is done":        {"sleep 60", func(_ *testing.T, h *Helper, _ *Process) { h.Close() }, true},
		"its helper was stopped": {"sleep 60", func(t *testing.T, h *Helper, p *Process) { stop(t, h.cmd.Process.Pid); p.Stop(Now()) }, false},
		"its helper was killed":  {"sleep 60", func(_ *testing.T, h *Helper, _ *Process) { h.cmd.Process.Kill() }, true},
		"mandate is out of file descriptors": {"sleep 60", func(t *testing.T, _ *Helper, p *Process) {
			giveBack := outOfFiles(t)
			defer giveBack()
			p.Stop(Now())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHelper(t)
			beside, besides := everyWay(t, h, "sleep 60")
			p, pids := everyWay(t, h, c.last)
			if c.last != "sleep 60" {
				<-p.Exited
				if p.Status.ExitStatus() != 3 {
					t.Errorf("the command ended with %v, want 3", p.Status)
				}
			}
			if p.Stop(Now().Add(time.Hour)); p.AwaitGone(time.After(100*time.Millisecond), nil) {
				t.Fatal("said to be gone while processes that ignore SIGTERM live")
			}
			c.end(t, h, p)
			isGone(t, p)
			if c.all {
				isGone(t, beside)
				pids, besides = append(pids, besides...), nil
			}
			areGone(t, true, pids...)
			areGone(t, false, besides...) // another command's
			if !c.all && (beside.HasExited() || closed(beside.gone)) {
				t.Error("another command has ended")
			}
		})
	}
}

// gone reports whether a process has ended, whoever is to reap it.
func gone(pid int) bool { p, err := readProcess(pid); return err != nil || p.dead }

func areGone(t *testing.T, want bool, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if gone(pid) != want {
			t.Errorf("process %d is gone: %v, want %v", pid, !want, want)
		}
	}
}

// outOfFiles leaves this process no file descriptor to open until it is given back.
func outOfFiles(t *testing.T) (giveBack func()) {
	t.Helper()
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}))
	giveBack = func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) }
	t.Cleanup(giveBack)
	return giveBack
}

// Nothing is started without a helper.
func TestStartWithoutAHelper(t *testing.T) {
	h, err := NewHelper()
	must(t, err)
	giveBack := outOfFiles(t)
	err = h.Begin(Setup{Path: "/bin/true", Argv: []string{"true"}})
	giveBack()
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Begin: %v", err)
	}
}

// A helper that was killed takes all its commands with it. What they leave is killed, and reaped, before the
// next one starts. What probes have started is left alone, and not waited for: perhaps it can't be killed.
func TestKilledHelper(t *testing.T) {
	h := newHelper(t)
	probe := new(Prober).Probe("exit 0")
	a, as := everyWay(t, h, "sleep 60")
	b, bs := everyWay(t, h, "sleep 60")
	syscall.Kill(h.cmd.Process.Pid, syscall.SIGKILL)
	for _, p := range []*Process{a, b} {
		<-p.Exited
		if p.Status != syscall.WaitStatus(syscall.SIGKILL) || !p.Orphan || p.Late {
			t.Errorf("the command ended with %v, want killed with its helper", p.Status)
		}
	}
	next, _ := h.run(t, 0, "exit 7")
	ctx, end := context.WithTimeout(t.Context(), waitLimit)
	defer end()
	if err := probe.Check(ctx); err != nil {
		t.Error("the prober was killed:", err)
	}
	areGone(t, true, append(as, bs...)...) // beside the next helper
	for _, pid := range append(as, bs...) {
		await(t, "the end of an orphan, which is reaped", func() bool { reapAdopted(); return reaped(pid) })
	}
	if isGone(t, next); next.Status.ExitStatus() != 7 {
		t.Errorf("the next helper's command ended with %v", next.Status)
	}
}

// What a helper does not kill that a debugger holds, mandate kills, and only that command. The helper is none of its
// processes. When it is given up, the others end as well, and the next command gets another one.
func TestHelperThatNothingWakes(t *testing.T) {
	h := newHelper(t)
	beside, besides := everyWay(t, h, "sleep 60")
	p, pids := everyWay(t, h, "sleep 60")
	servertest.Trace(t, h.cmd.Process.Pid)
	unstarted, err := h.Start([]string{"SCRIPT=echo $$ >>$PIDS"}, Now().Add(time.Hour))
	must(t, err)
	p.Stop(Now().Add(500 * time.Millisecond)) // a busy machine needs a part of it for the next line
	if left := p.Left(); p.AwaitGone(time.After(50*time.Millisecond), nil) || left == "" || strings.Contains(left, HelperName) || p.GiveUp() {
		t.Errorf("before its time it has %q", left)
	}
	await(t, "the end of the command", func() bool { _ = p.AwaitGone(time.After(100*time.Millisecond), nil); return p.Left() == "" })
	areGone(t, true, pids...)
	areGone(t, false, append(besides, h.cmd.Process.Pid)...)
	if closed(p.gone) || !p.GiveUp() {
		t.Error("the helper is not given up")
	}
	for _, q := range []*Process{p, beside, unstarted} {
		if isGone(t, q); !q.Orphan {
			t.Error("its helper has obeyed")
		}
	}
	areGone(t, true, besides...)
	next, _ := h.run(t, 0, "exit 7")
	if isGone(t, next); next.Status.ExitStatus() != 7 {
		t.Errorf("the next helper's command ended with %v", next.Status)
	}
}

// A tree that grows while it is killed ends all the same, also beside other commands: each process starts two, in
// sessions of their own, and ends.
func TestGrowingTree(t *testing.T) {
	grow := filepath.Join(t.TempDir(), "grow.sh")
	script := "trap '' TERM\necho $$ >>$PIDS\nsetsid sleep 60 &\nsetsid sh " + grow + " &\n"
	must(t, os.WriteFile(grow, []byte(script), 0o600))
	h := newHelper(t)
	for range 2 {
		p, _ := h.run(t, 10, "sh "+grow+"; sleep 60")
		kill(t, p)
		h.run(t, 1, "echo $$ >>$PIDS; sleep 60") // beside the next one
	}
}

// A process whose main thread has ended, and others have not, looks like a zombie, and works: it is killed, and
// waited for, as the command itself, below it, and as an orphan; alone, and beside another command.
func TestMainThreadHasEnded(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	t.Setenv("THREADS", self)
	h := newHelper(t)
	for range 2 {
		for name, script := range map[string]string{
			"the command": `exec -a threads "$THREADS"`,
			"a child":     `(exec -a threads "$THREADS") & sleep 60`,
			"an orphan":   `(setsid bash -c 'exec -a threads "$THREADS"' & exit); sleep 60`,
			"left behind": `(setsid bash -c 'exec -a threads "$THREADS"' & exit); until [ -s $PIDS ]; do sleep 0.01; done; exit 0`,
		} {
			p, pids := h.run(t, 1, "exec bash -c '"+strings.ReplaceAll(script, "'", `'\''`)+"'")
			await(t, "the end of the main thread", func() bool {
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pids[0]))
				return strings.Contains(string(stat), ") Z ")
			})
			if p.AwaitGone(time.After(50*time.Millisecond), nil) {
				t.Errorf("%s: said to be gone while its threads work", name)
			}
			kill(t, p)
			if !reaped(pids[0]) {
				t.Errorf("%s: the process works on", name)
			}
		}
		h.run(t, 1, "echo $$ >>$PIDS; sleep 60") // beside the others
	}
}

// Without enough file descriptors a scan fails, and does not take processes for gone.
func TestScanWithoutFiles(t *testing.T) {
	all, err := processes()
	if err != nil || len(all) < 2 {
		t.Fatalf("%d processes, %v", len(all), err)
	}
	giveBack := outOfFiles(t)
	defer giveBack()
	if all, err := processes(); err == nil {
		t.Errorf("%d processes, and no error", len(all))
	}
}

// What is read of /proc is right, whatever a process calls itself.
func TestLooksAtProc(t *testing.T) {
	me, err := readProcess(os.Getpid())
	if err != nil || me.pid != os.Getpid() || me.parent != os.Getppid() || me.dead || me.group != syscall.Getpgrp() || me.start == 0 {
		t.Errorf("%+v, %v", me, err)
	}
	if _, err := readProcess(1 << 30); err == nil {
		t.Error("a process that doesn't exist")
	}
	odd := []byte("42 (a) b (c) Z 1 7 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 987654 0 0")
	if p, err := parseStat(odd); err != nil || p != (process{pid: 42, parent: 1, group: 7, start: 987654, name: "a) b (c", dead: true}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, state := range "RSDTtIWPK" { // t: a debugger has stopped it, and lets it run on
		living := bytes.Replace(odd, []byte(") Z "), []byte(") "+string(state)+" "), 1)
		if p, err := parseStat(living); err != nil || p.dead {
			t.Errorf("a process in state %c is taken for dead: %+v, %v", state, p, err)
		}
	}
	threads := bytes.Replace(odd, []byte(" 20 0 1 0 "), []byte(" 20 0 3 0 "), 1)
	if p, err := parseStat(threads); err != nil || p.dead {
		t.Errorf("a process whose main thread has ended, and others have not, is taken for dead: %+v, %v", p, err)
	}
	for _, bad := range []string{"", "1", "1 (", "1 (a", ")(", "1 (a) S 1 2", "x (a) S 1 7 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 9"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestBelow(t *testing.T) {
	// 6 is a child of the root, so that it can be spared; 5 is none.
	all := []process{{pid: 2, parent: 1}, {pid: 3, parent: 2}, {pid: 4, parent: 3, dead: true}, {pid: 5, parent: 4}, {pid: 6, parent: 2}, {pid: 7, parent: 6}, {pid: 8, parent: 1}}
	got := map[int]bool{}
	for _, p := range below(all, 2, func(child int) bool { return child != 5 && child != 6 }) {
		got[p.pid] = true
	}
	if len(got) != 2 || !got[3] || !got[5] {
		t.Errorf("below 2 without 6: %v, want 3 and 5", got)
	}
}

// A number that was given out again is not the process that had it.
func TestOnlyTheSameProcess(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, _ := readProcess(cmd.Process.Pid)
	for _, wrong := range []uint64{p.start + 1, 0} {
		if err := signalOne(process{pid: cmd.Process.Pid, start: wrong}, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("another process of that number was signalled: %v", err)
		}
	}
	if gone(cmd.Process.Pid) {
		t.Error("it was killed")
	}
}

// The clock is not the wall clock, and counts across processes.
func TestNowIsNotTheWallClock(t *testing.T) {
	var boot unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot))
	if d := Now().Sub(Instant(boot.Nano())); d < 0 || d > time.Minute {
		t.Errorf("now is %v after the boot clock", d)
	}
}
