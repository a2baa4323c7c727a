//go:build unix

package supervise

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A keepAlive counts from when it was written, on the clock that both sides share: what
// it takes to arrive is part of the time that the command has left.
func TestOrderCountsFromWhenItWasWritten(t *testing.T) {
	at := Instant(1_000_000_000_000)
	want := keepAlive{tree: tree{root: 7, start: 8, group: 9, cgroup: "/sys/fs/a b\"c"}, mandate: tree{root: 5, start: 6}, until: at.Add(time.Second)}
	o, ok := readKeepAlive(string(want.line()))
	if !ok || o != want {
		t.Fatalf("%+v, %v", o, ok)
	}
	for after, want := range map[time.Duration]time.Duration{
		0: time.Second, 400 * time.Millisecond: 600 * time.Millisecond, time.Second: 0, time.Minute: 0,
	} {
		if got := o.remaining(at.Add(after)); got != want {
			t.Errorf("read after %v: %v left, want %v", after, got, want)
		}
	}
	for _, bad := range []string{"", "garbage\n", "1 2 3\n", "7 8 9 5 6 1000\n"} {
		if _, ok := readKeepAlive(bad); ok {
			t.Errorf("%q is a keepAlive", bad)
		}
	}
}

// machine is the clock of a bubble, which a suspend of the machine can put ahead of
// the timers.
type machine struct {
	began     time.Time
	suspended atomic.Int64
}

func (m *machine) now() Instant { return Instant(time.Since(m.began)) + Instant(m.suspended.Load()) }

func TestFollow(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(m *machine, w io.WriteCloser)
		want time.Duration
		slop time.Duration
	}{
		"silence": {func(m *machine, w io.WriteCloser) {
			w.Write(keepAlive{until: m.now().Add(time.Second)}.line())
		}, time.Second, 0},
		"told again and again": {func(m *machine, w io.WriteCloser) {
			for range 10 {
				w.Write(keepAlive{until: m.now().Add(time.Second)}.line())
				time.Sleep(900 * time.Millisecond)
			}
		}, 9*900*time.Millisecond + time.Second, 0},
		"told that it is sooner": {func(m *machine, w io.WriteCloser) {
			w.Write(keepAlive{until: m.now().Add(time.Hour)}.line())
			time.Sleep(time.Second)
			w.Write(keepAlive{until: m.now().Add(time.Second)}.line())
		}, 2 * time.Second, 0},
		"the end of mandate": {func(m *machine, w io.WriteCloser) {
			w.Write(keepAlive{until: m.now().Add(time.Hour)}.line())
			time.Sleep(3 * time.Second)
			w.Close()
		}, 3 * time.Second, 0},
		// One that was stopped, and finds what has piled up: only the newest one counts.
		"a stopped guard": {func(m *machine, w io.WriteCloser) {
			var pile []byte
			for range 20 {
				pile = append(pile, keepAlive{until: m.now().Add(-time.Second)}.line()...)
			}
			w.Write(append(pile, keepAlive{until: m.now().Add(time.Second)}.line()...))
		}, time.Second, 0},
		"garbage is no keepAlive": {func(m *machine, w io.WriteCloser) {
			w.Write(keepAlive{until: m.now().Add(time.Second)}.line())
			io.WriteString(w, "garbage\n")
		}, time.Second, 0},
		// The timers stood still for the rest of the lease; the lease didn't.
		"a suspended machine": {func(m *machine, w io.WriteCloser) {
			w.Write(keepAlive{until: m.now().Add(time.Minute)}.line())
			time.Sleep(10 * time.Second)
			m.suspended.Store(int64(time.Hour))
		}, 10 * time.Second, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{began: time.Now()}
				r, w := io.Pipe()
				go c.do(m, w)
				follow(r, m.now)
				if got := time.Since(m.began); got < c.want || got > c.want+c.slop {
					t.Errorf("over after %v, want %v", got, c.want)
				}
				w.Close()
				r.Close()
			})
		})
	}
}

// Orders that were not named a tree kill nobody: 0 and 1 would be ourselves and everybody.
func TestGuardWithoutATreeKillsNothing(t *testing.T) {
	for _, root := range []int{0, 1} {
		keepAlive{tree: tree{root: root, group: root}}.enforce()
		(tree{root: root, group: root}).signalGroup(9)
	}
}
