//go:build linux

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// strike is a way to end a leader.
type strike struct {
	weight int
	what   string
	// keeps: nothing is left that may release the term, so another candidate leads when the lease has lapsed, and
	// not before.
	keeps bool
	do    func(l *lane, v victim) (after func()) // after is called when another one leads; nil: nothing is left to do
}

// victim is a leader, and what watches over it.
type victim struct {
	*stormCandidate
	leader int // the process that leads
	work   []int
}

// strikes are what is drawn from. A long lane waits for a release after each.
func (l *lane) strikes() []strike {
	switch {
	case !l.run && l.long():
		return []strike{{1, "worker", false, killLeader}}
	case !l.run:
		return superviseStrikes
	case l.long():
		return append([]strike{{40, "mandate run and its command", false, func(l *lane, v victim) func() {
			return l.kill(v.mandate(), v.leader)
		}}}, releasedRuns...)
	default:
		return slices.Concat(keptRuns, releasedRuns)
	}
}

var superviseStrikes = []strike{
	{20, "worker", false, killLeader},
	{15, "worker and its supervisor", false, func(l *lane, v victim) func() {
		return l.kill(append(v.work, v.mandate())...)
	}},
	{20, "supervisor, then its worker", true, func(l *lane, v victim) func() {
		l.kill(v.mandate())
		l.pause()
		return l.kill(v.leader)
	}},
	{15, "supervisor and its worker", true, func(l *lane, v victim) func() {
		return l.kill(v.mandate(), v.leader)
	}},
	{10, "worker, then its stopped supervisor", true, func(l *lane, v victim) func() {
		l.freeze(v.mandate())
		l.kill(v.leader)
		l.pause()
		return l.kill(v.mandate())
	}},
	{10, "worker whose pipe another process holds", true, func(l *lane, v victim) func() {
		pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/3", v.leader), os.O_WRONLY, 0)
		if err != nil {
			l.t.Error(err)
		}
		l.kill(v.leader)
		return func() { _ = pipe.Close() }
	}},
	{10, "worker while Redis is away", true, func(l *lane, v victim) func() {
		v.cutOff()
		return l.kill(v.leader)
	}},
}

var releasedRuns = []strike{
	{30, "mandate run", false, func(l *lane, v victim) func() {
		return l.kill(v.mandate())
	}},
	{10, "command of mandate run", false, killLeader},
}

var keptRuns = []strike{
	{20, "mandate run while Redis is away", true, func(l *lane, v victim) func() {
		v.cutOff()
		return l.kill(v.mandate())
	}},
}

func killLeader(l *lane, v victim) func() { return l.kill(v.leader) }

// cutOff keeps the candidate's processes from the servers, also those that have no connection yet.
func (v victim) cutOff() {
	for _, p := range v.proxies {
		p.Set(Weather{Cut: true})
	}
}

// draw is the next strike.
func (l *lane) draw() strike {
	all, total := l.strikes(), 0
	for _, s := range all {
		total += s.weight
	}
	n := l.rnd.IntN(total)
	for _, s := range all {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	panic("no strike has a weight")
}

func (l *lane) pause() { time.Sleep(time.Duration(l.rnd.Int64N(int64(20 * time.Millisecond)))) }

// strike kills the leader, or what watches over it, or both, and returns what it was.
func (l *lane) strike(leader Record, s strike) (what string, after func()) {
	after = func() {}
	c := l.cands[leader.Who]
	if c == nil {
		l.t.Errorf("lane %s: %s leads, and is none of its candidates", l.name, leader.Who)
		return "nobody", after
	}
	var kept Record
	if s.keeps {
		kept = l.held(leader, s.what)
	}
	if f := s.do(l, victim{c, leader.PID, l.processesOf(leader.Token)}); f != nil {
		after = f
	}
	// A leader whose renewals fail stops, and releases its lock itself, a quarter of the lease before its end.
	if s.keeps && kept.Until-Now() > l.lease/2 {
		l.begun = append(l.begun, kept)
	}
	return s.what, after
}

// held is until when the servers keep the leader's lock, by their own account, unless it is renewed or released.
func (l *lane) held(leader Record, what string) Record {
	held := Record{Kind: Kept, At: Now(), Who: leader.Who, Token: leader.Token, Result: what}
	ctx, cancel := context.WithTimeout(context.Background(), l.lease)
	defer cancel()
	el, err := l.nodes.Election(l.name)
	if err != nil {
		l.t.Error(err)
		return held
	}
	// Until a majority has answered, or when another one leads, nothing is known.
	if st, err := el.Status(ctx); err == nil && st.Leader != nil && st.Leader.Token == leader.Token {
		held.Until = held.At + st.Leader.LeaseLeft
	}
	return held
}

// kill kills those of these processes that are of this lane, all at a time.
func (l *lane) kill(pids ...int) (after func()) {
	l.signal(unix.SIGKILL, pids...)
	return nil
}

// freeze stops them, and waits until none can do anything more.
func (l *lane) freeze(pids ...int) {
	l.signal(unix.SIGSTOP, pids...)
	for limit := time.Now().Add(maxWait); ; time.Sleep(time.Millisecond) {
		running := 0
		for _, pid := range pids {
			if state := stateOf(pid); state != "T" && state != "Z" && state != "" {
				running++
			}
		}
		if running == 0 {
			return
		}
		if time.Now().After(limit) {
			l.t.Errorf("lane %s: %d processes do not stop", l.name, running)
			return
		}
	}
}

// stateOf is that of a process, as ps shows it; "": there is none.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) == 0 {
		return ""
	}
	return string(fields[0])
}

// signal reaches those of these processes that are of this lane. The number of one that has ended may be
// another's by now, or that of a thread.
func (l *lane) signal(sig unix.Signal, pids ...int) {
	var fds []int
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		defer func() { _ = unix.Close(fd) }()
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains("\x00"+string(environ), "\x00"+dirEnv+"="+l.dir+"\x00") {
			fds = append(fds, fd)
		}
	}
	for _, fd := range fds {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
