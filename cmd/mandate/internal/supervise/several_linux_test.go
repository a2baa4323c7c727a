package supervise

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each of several commands ends alone, however it ends.
func TestSeveralCommandsEndAlone(t *testing.T) {
	Adopt()
	for name, end := range map[string]func(*Process){
		"mandate ends it":       func(p *Process) { p.Kill(time.After(waitLimit)) },
		"its guard kills it":    func(p *Process) { p.Extend(Now()) },
		"its helpers are ended": func(p *Process) { p.Close() },
		"its reaper is killed":  func(p *Process) { syscall.Kill(p.tree.root, syscall.SIGKILL); p.Kill(time.After(waitLimit)) },
	} {
		t.Run(name, func(t *testing.T) {
			beside, besides := everyWay(t, time.Hour, "sleep 60")
			p, pids := everyWay(t, time.Hour, "sleep 60")
			end(p)
			if !p.AwaitGone(time.After(waitLimit), nil) {
				t.Fatal("something of it is left")
			}
			for _, pid := range pids {
				if !gone(pid) {
					t.Errorf("process %d of it lives", pid)
				}
			}
			for _, pid := range besides {
				if gone(pid) {
					t.Errorf("process %d of the other command was killed", pid)
				}
			}
			if closed(beside.GuardGone()) || beside.HasExited() {
				t.Error("the other command has lost its guard or its reaper")
			}
		})
	}
}

// What the killed reapers of two commands have left ends with the first of them that ends: it
// can't be told whose it is, and neither may live.
func TestKilledReapersOfTwoCommands(t *testing.T) {
	Adopt()
	a, as := everyWay(t, time.Hour, "sleep 60")
	b, bs := everyWay(t, time.Hour, "sleep 60")
	for _, p := range []*Process{a, b} {
		syscall.Kill(p.tree.root, syscall.SIGKILL)
		<-p.Exited()
	}
	if !a.Kill(time.After(waitLimit)) || !b.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("not gone after SIGKILL")
	}
	for _, pid := range append(as, bs...) {
		if !gone(pid) {
			t.Errorf("process %d lives", pid)
		}
	}
}

// The guard of a command whose time has passed, and whose reaper was killed, searches a mandate
// that is stopped: what another one's term still covers lives on, and keeps its guard.
func TestGuardSparesOtherCommands(t *testing.T) {
	cmd, pids := felled(t, syscall.SIGSTOP, everyLeaver()+"echo $$ >>$PIDS; sleep 60", len(leavers)+1,
		"SUPERVISE_BESIDE=sh -c 'sleep 60; :' & child=$!; echo $$ $child >$PIDS.part; mv $PIDS.part $PIDS.beside; sleep 60")
	for _, pid := range pids {
		await(t, "the end of an orphan", func() bool { return gone(pid) })
	}
	file := ""
	for _, v := range cmd.Env {
		if name, ok := strings.CutPrefix(v, "PIDS="); ok {
			file = name
		}
	}
	besides := numbers(t, file+".beside")
	if len(besides) != 2 {
		t.Fatalf("processes of the other command: %v", besides)
	}
	guard := 0
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, argv := programOf(p.pid); p.parent == cmd.Process.Pid && !p.dead && argv == GuardName+"\x00" {
			guard = p.pid
		}
	}
	for _, pid := range append(besides, guard) {
		if pid == 0 || gone(pid) {
			t.Errorf("process %s of the other command, or its guard, was killed", strconv.Itoa(pid))
		}
	}
}
