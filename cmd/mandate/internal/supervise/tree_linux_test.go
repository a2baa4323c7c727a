package supervise

import (
	"errors"
	"os"
	"path/filepath"
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
func everyWay(t *testing.T, until time.Duration, last string) (*Process, []int) {
	t.Helper()
	return start(t, until, len(leavers)+1, everyLeaver()+"echo $$ >>$PIDS; "+last)
}

// Whatever a script starts ends with the term, also what left its process group, its
// session or its parent.
func TestWholeTreeIsEnded(t *testing.T) {
	for name, way := range leavers {
		if t.Failed() { // a failure takes as long as our waitLimit: one is enough to know
			return
		}
		t.Run(name, func(t *testing.T) {
			sibling(t)
			p, pids := start(t, time.Hour, 2, stubborn+way+"\necho $$ >>$PIDS; sleep 60")
			if p.Terminate(); p.AwaitGone(time.After(100*time.Millisecond), nil) {
				t.Fatal("said to be gone while a process that ignores SIGTERM lives")
			}
			if len(p.Left()) == 0 {
				t.Error("what is left is not listed")
			}
			if !p.Kill(time.After(waitLimit)) {
				t.Fatal("not gone after SIGKILL")
			}
			noneLeft(t, pids)
		})
	}
}

// The same for what a command leaves behind that ends by itself.
func TestLeftBehindIsEnded(t *testing.T) {
	p, pids := everyWay(t, time.Hour, "exit 3")
	<-p.Exited()
	if p.Status().ExitStatus() != 3 {
		t.Errorf("the command ended with %v, want 3", p.Status())
	}
	if p.AwaitGone(time.After(50*time.Millisecond), nil) {
		t.Fatal("said to be gone with the command itself")
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
	noneLeft(t, pids)
}

// The guard ends the whole tree when mandate is silent.
func TestGuardEndsTheWholeTree(t *testing.T) {
	sibling(t)
	p, pids := everyWay(t, time.Hour, "sleep 60")
	p.Extend(Now())
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("something is left")
	}
	noneLeft(t, pids)
}

// So does the reaper when mandate is dead, with no guard at all.
func TestReaperEndsTheTreeOfADeadMandate(t *testing.T) {
	p, pids := everyWay(t, time.Hour, "sleep 60")
	p.Close() // the guard's end, and that of the pipe: as when all of us are killed
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("something is left")
	}
	noneLeft(t, pids)
}

// And when mandate is silent and there is no guard: somebody has killed it meanwhile.
func TestReaperEndsTheTreeOfAStoppedMandate(t *testing.T) {
	p, pids := everyWay(t, time.Hour, "sleep 60")
	p.guard.dismiss()
	p.Extend(Now().Add(100 * time.Millisecond))
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("something is left")
	}
	noneLeft(t, pids)
}

// A reaper that is killed takes the command with it, and we inherit the rest.
func TestKilledReaper(t *testing.T) {
	Adopt()
	p, pids := everyWay(t, time.Hour, "sleep 60")
	syscall.Kill(p.tree.root, syscall.SIGKILL)
	<-p.Exited()
	if !killed(p.Status()) {
		t.Errorf("the command ended with %v, want killed", p.Status())
	}
	if p.AwaitGone(time.After(50*time.Millisecond), nil) {
		t.Fatal("said to be gone while processes live")
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
	if closed(p.GuardGone()) {
		t.Error("the guard was killed, too")
	}
	for _, pid := range pids {
		await(t, "the end of an orphan, which is reaped", func() bool { reapAdopted(); return reaped(pid) })
	}
}

// The guard does the same when we are stopped just then.
func TestGuardOfAKilledReaper(t *testing.T) {
	cmd, pids := felled(t, syscall.SIGSTOP, everyLeaver()+"echo $$ >>$PIDS; sleep 60", len(leavers)+1)
	mandate := tree{root: cmd.Process.Pid, start: identify(cmd.Process.Pid)}
	for _, pid := range pids {
		await(t, "the end of an orphan", func() bool { l, ok := readProcess(pid); return !ok || l.dead })
	}
	if !mandate.rootStopped() {
		t.Error("mandate goes on")
	}
}

// A reaper that somebody has stopped is no obstacle.
func TestStoppedReaper(t *testing.T) {
	p, pids := everyWay(t, time.Hour, "sleep 60")
	stop(p.tree.root)
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
	noneLeft(t, pids)
}

// Nor for the guard.
func TestGuardOfAStoppedReaper(t *testing.T) {
	p, pids := everyWay(t, time.Hour, "sleep 60")
	stop(p.tree.root)
	p.Extend(Now())
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("the guard waits for a stopped reaper")
	}
	for _, pid := range pids {
		await(t, "the end", func() bool { l, ok := readProcess(pid); return !ok || l.dead })
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
	p, _ := start(t, time.Hour, 10, "sh "+grow+"; sleep 60")
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
}

// What is read of /proc is right, whatever a process calls itself.
func TestLooksAtProc(t *testing.T) {
	me, ok := readProcess(os.Getpid())
	if !ok || me.pid != os.Getpid() || me.parent != os.Getppid() || me.dead || me.group != unix.Getpgrp() || me.start == 0 {
		t.Errorf("%+v, %v", me, ok)
	}
	if _, ok := readProcess(1 << 30); ok {
		t.Error("a process that doesn't exist")
	}
	odd := []byte("42 (a) b (c) Z 1 7 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 987654 0 0")
	if p, ok := parseStat(odd); !ok || p != (process{pid: 42, parent: 1, group: 7, start: 987654, name: "a) b (c", dead: true}) {
		t.Errorf("%+v, %v", p, ok)
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
	for _, p := range below(all, 2, func(p process) bool { return p.pid == 6 || p.pid == 5 }) {
		got[p.pid] = true
	}
	if len(got) != 2 || !got[3] || !got[5] {
		t.Errorf("below 2 without 6: %v, want 3 and 5", got)
	}
}

// A number that was given out again is not the process that had it.
func TestOnlyTheSameProcess(t *testing.T) {
	cmd := sibling(t)
	start := identify(cmd.Process.Pid)
	for _, wrong := range []uint64{start + 1, 0} {
		if err := signalOne(process{pid: cmd.Process.Pid, start: wrong}, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("another process of that number was signalled: %v", err)
		}
		if (tree{root: cmd.Process.Pid, start: wrong}).rootLives() {
			t.Error("taken for another process")
		}
	}
	if !(tree{root: cmd.Process.Pid, start: start}).rootLives() {
		t.Error("the process itself is not recognized")
	}
}

// What the command has started by way of others is found by its environment.
func TestMarked(t *testing.T) {
	if found := Marked("SUPERVISE_TEST=1"); len(found) != 0 {
		t.Fatalf("found %v", found)
	}
	t.Setenv("SUPERVISE_TEST", "1")
	t.Setenv("SUPERVISE_TEST_B", "22")
	cmd := sibling(t)
	await(t, "the process", func() bool { // it has our environment until exec gives it its own
		found := Marked("SUPERVISE_TEST=1", "SUPERVISE_TEST_B=22")
		return len(found) == 1 && found[0] == Living{cmd.Process.Pid, "sleep"}
	})
	if found := Marked("SUPERVISE_TEST=1", "SUPERVISE_TEST_B=2"); len(found) != 0 {
		t.Errorf("found %v by a part of a value", found)
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
