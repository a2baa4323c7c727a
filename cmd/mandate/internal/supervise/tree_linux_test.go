package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
func everyWay(t *testing.T, last string) (*Process, []int) {
	t.Helper()
	return start(t, len(leavers)+1, everyLeaver()+"echo $$ >>$PIDS; "+last)
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
// parent, and whoever ends it; and the commands of other terms don't.
func TestWholeTreeIsEnded(t *testing.T) {
	Adopt()
	kill := func(t *testing.T, p *Process) { p.Kill(time.After(waitLimit)) }
	for name, c := range map[string]struct {
		last string
		end  func(t *testing.T, p *Process)
	}{
		"mandate ends it":        {"sleep 60", kill},
		"the command has ended":  {"exit 3", kill},
		"its deadline passes":    {"sleep 60", func(_ *testing.T, p *Process) { p.Extend(Now()) }},
		"mandate is dead":        {"sleep 60", func(_ *testing.T, p *Process) { p.orders.Close() }}, // as the kernel does it
		"mandate gives up":       {"sleep 60", func(_ *testing.T, p *Process) { p.Close() }},
		"its helper was stopped": {"sleep 60", func(t *testing.T, p *Process) { stop(t, p.tree.root); kill(t, p) }},
		"its helper was killed":  {"sleep 60", func(t *testing.T, p *Process) { syscall.Kill(p.tree.root, syscall.SIGKILL); kill(t, p) }},
		"mandate is out of file descriptors": {"sleep 60", func(t *testing.T, p *Process) {
			giveBack := outOfFiles(t)
			defer giveBack()
			kill(t, p)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			sibling(t)
			beside, besides := everyWay(t, "sleep 60")
			p, pids := everyWay(t, c.last)
			if c.last != "sleep 60" {
				<-p.Exited()
				if p.Status().ExitStatus() != 3 {
					t.Errorf("the command ended with %v, want 3", p.Status())
				}
			}
			if p.Terminate(); p.AwaitGone(time.After(50*time.Millisecond), nil) {
				t.Fatal("said to be gone while processes that ignore SIGTERM live")
			}
			if len(p.Left()) < len(leavers) {
				t.Errorf("what is left is not listed: %v of %v", p.Left(), pids)
			}
			c.end(t, p)
			if !p.AwaitGone(time.After(waitLimit), nil) {
				t.Fatal("something is left")
			}
			for _, pid := range pids {
				if !gone(pid) {
					t.Errorf("process %d lives", pid)
				}
			}
			for _, pid := range besides {
				if gone(pid) {
					t.Errorf("process %d of another command was killed", pid)
				}
			}
			if beside.HasExited() || closed(beside.gone) {
				t.Error("another command has ended, or its helper")
			}
		})
	}
}

// gone reports whether a process has ended, whoever is to reap it.
func gone(pid int) bool { p, ok := readProcess(pid); return !ok || p.dead }

// outOfFiles leaves this process no file descriptor to open until it is given back.
func outOfFiles(t *testing.T) (giveBack func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	giveBack = func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) }
	t.Cleanup(giveBack)
	return giveBack
}

// Nothing is started without a helper.
func TestStartWithoutAHelper(t *testing.T) {
	file := filepath.Join(t.TempDir(), "started")
	giveBack := outOfFiles(t)
	_, err := Start(Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "touch " + file}, Env: os.Environ()}, Now().Add(time.Hour))
	giveBack()
	if !errors.Is(err, ErrStart) || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Start: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command was started")
	}
}

// What a killed helper has left is reaped, too. What the killed helpers of two commands have left ends
// with the first of them that ends: it can't be told whose it is, and neither may live.
func TestKilledHelpersOfTwoCommands(t *testing.T) {
	Adopt()
	a, as := everyWay(t, "sleep 60")
	b, bs := everyWay(t, "sleep 60")
	for _, p := range []*Process{a, b} {
		syscall.Kill(p.tree.root, syscall.SIGKILL)
		<-p.gone
		if !killed(p.Status()) || !p.HelperKilled() || p.KilledByHelper() {
			t.Errorf("the command ended with %v, want killed with its helper", p.Status())
		}
	}
	if !a.Kill(time.After(waitLimit)) || !b.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("not gone after SIGKILL")
	}
	for _, pid := range append(as, bs...) {
		await(t, "the end of an orphan, which is reaped", func() bool { reapAdopted(); return reaped(pid) })
	}
}

// A tree that grows while it is killed ends all the same: each process starts two, in
// sessions of their own, and ends.
func TestGrowingTree(t *testing.T) {
	grow := filepath.Join(t.TempDir(), "grow.sh")
	script := "trap '' TERM\necho $$ >>$PIDS\nsetsid sleep 60 &\nsetsid sh " + grow + " &\n"
	if err := os.WriteFile(grow, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := start(t, 10, "sh "+grow+"; sleep 60")
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
}

// What is read of /proc is right, whatever a process calls itself.
func TestLooksAtProc(t *testing.T) {
	me, ok := readProcess(os.Getpid())
	if !ok || me.pid != os.Getpid() || me.parent != os.Getppid() || me.dead || me.group != syscall.Getpgrp() || me.start == 0 {
		t.Errorf("%+v, %v", me, ok)
	}
	if _, ok := readProcess(1 << 30); ok {
		t.Error("a process that doesn't exist")
	}
	odd := []byte("42 (a) b (c) Z 1 7 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 987654 0 0")
	if p, ok := parseStat(odd); !ok || p != (process{pid: 42, parent: 1, group: 7, start: 987654, name: "a) b (c", dead: true}) {
		t.Errorf("%+v, %v", p, ok)
	}
	threads := bytes.Replace(odd, []byte(" 20 0 1 0 "), []byte(" 20 0 3 0 "), 1)
	if p, ok := parseStat(threads); !ok || p.dead {
		t.Errorf("a process whose main thread has ended, and others have not, is taken for dead: %+v, %v", p, ok)
	}
	for _, bad := range []string{"", "1", "1 (", "1 (a", ")(", "1 (a) S 1 2", "x (a) S 1 7 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 9"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestBelow(t *testing.T) {
	// 6 is a child of the root, so that it can be spared; 5 is none.
	all := []process{{pid: 2, parent: 1}, {pid: 3, parent: 2}, {pid: 4, parent: 3, dead: true}, {pid: 5, parent: 4}, {pid: 6, parent: 2}, {pid: 7, parent: 6}, {pid: 8, parent: 1}}
	got := map[int]bool{}
	for _, p := range below(all, 2, map[int]bool{5: true, 6: true}) {
		got[p.pid] = true
	}
	if len(got) != 2 || !got[3] || !got[5] {
		t.Errorf("below 2 without 6: %v, want 3 and 5", got)
	}
}

// A number that was given out again is not the process that had it.
func TestOnlyTheSameProcess(t *testing.T) {
	cmd := sibling(t)
	p, _ := readProcess(cmd.Process.Pid)
	for _, wrong := range []uint64{p.start + 1, 0} {
		if err := signalOne(process{pid: cmd.Process.Pid, start: wrong}, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("another process of that number was signalled: %v", err)
		}
	}
}

// The clock is not the wall clock, and counts across processes.
func TestNowIsNotTheWallClock(t *testing.T) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		t.Fatal(err)
	}
	if d := Now().Sub(Instant(boot.Nano())); d < 0 || d > time.Minute {
		t.Errorf("now is %v after the boot clock", d)
	}
}
