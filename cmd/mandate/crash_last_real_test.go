//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

// beater is a command that notes every millisecond that it works, and when: "<who> <nanoseconds>".
// "tree" starts another one that has left the session and is deaf to SIGTERM.
func beater() int {
	who := os.Args[1]
	if who == "tree" {
		child := exec.Command("beater", "leaver")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return 1
		}
	}
	f, err := os.OpenFile("beats", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := fmt.Fprintln(f, who, time.Now().UnixNano()); err != nil {
			return 1
		}
	}
	return 0
}

// lastBeats are the newest of each process of the command, and how many there are of all.
func (c *crash) lastBeats() (last map[string]time.Time, n int) {
	c.t.Helper()
	text, _ := os.ReadFile(filepath.Join(c.dir, "beats"))
	last = map[string]time.Time{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue // it is being written
		}
		ns, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			c.t.Fatalf("no beat: %q", line)
		}
		last[f[0]] = time.Unix(0, ns)
		n++
	}
	return last, n
}

// beating waits for that many more beats.
func (c *crash) beating(more int) {
	c.t.Helper()
	_, was := c.lastBeats()
	if err := poll(func() error {
		if last, n := c.lastBeats(); n < was+more || len(last) != 2 {
			return fmt.Errorf("%d beats of %d processes, were %d", n, len(last), was)
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
}

// releases has Redis report each deletion of the lock, with its own time of it, which is that of the machine.
func (c *crash) releases() <-chan time.Time {
	c.t.Helper()
	u, err := url.Parse(c.redis.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	lines := bufio.NewReader(conn)
	if u.User != nil {
		password, _ := u.User.Password()
		fmt.Fprintf(conn, "AUTH %s\r\n", password)
		_, _ = lines.ReadString('\n')
	}
	fmt.Fprint(conn, "MONITOR\r\n")
	if ok, err := lines.ReadString('\n'); ok != "+OK\r\n" {
		c.t.Fatalf("MONITOR: %q, %v", ok, err)
	}
	seen := make(chan time.Time, 16)
	go func() {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// +1700000000.123456 [0 lua] "DEL" "mandate:{e}:lock"
			var seconds, micros int64
			if n, _ := fmt.Sscanf(line, "+%d.%d", &seconds, &micros); n == 2 && strings.Contains(line, ` lua] "DEL" "mandate:{e}:lock"`) {
				seen <- time.UnixMicro(seconds*1e6 + micros)
			}
		}
	}()
	return seen
}

// releasedLast checks that the lock is released after the last beat of the last process, and that none lives.
func (c *crash) releasedLast(releases <-chan time.Time) {
	c.t.Helper()
	var released time.Time
	select {
	case released = <-releases:
	case <-time.After(scriptTimeout):
		c.t.Fatal("the lock is not released")
	}
	if left := supervise.Marked("MANDATE_ID=a", "MANDATE_ELECTION=e"); len(left) > 0 {
		c.t.Errorf("the lock was released while %v lived", left)
	}
	time.Sleep(20 * time.Millisecond) // for what a process would write that no list shows
	last, n := c.lastBeats()
	for who, at := range last {
		c.t.Logf("%s: its last beat of %d was %v before the release", who, n, released.Sub(at))
		if !at.Before(released) {
			c.t.Errorf("%s worked until %v after the release", who, at.Sub(released))
		}
	}
	if len(last) != 2 {
		c.t.Errorf("beats of %v, want those of two processes", last)
	}
}

// beats is a `mandate run` of two processes that beat.
func (c *crash) beats() *exec.Cmd {
	c.t.Helper()
	a := c.start("run", "--election", "e", "--id", "a", "--lease", crashLease.String(), "--grace", "100ms", "--", "beater", "tree")
	c.leads("a")
	c.beating(50)
	return a
}

// stopHelpers stops the guard and the reaper of a mandate. When mandate dies, the kernel sends SIGHUP and
// SIGCONT to the reaper, whose process group is orphaned then, and has a stopped member; so it finishes. A
// process in its group whose parent is elsewhere in the session prevents that.
func (c *crash) stopHelpers(mandate int, orphaned bool) (reaper int) {
	c.t.Helper()
	// A parent in the session keeps it from being orphaned, too: this process, once it adopts orphans.
	var adopts int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&adopts)), 0, 0, 0); err != nil || adopts != 0 {
		c.t.Fatalf("this process adopts orphans (%d, %v): a test has called mandate run in it, and not as a process of its own", adopts, err)
	}
	guards, reapers := helpersOf(mandate, supervise.GuardName), helpersOf(mandate, supervise.ReaperName)
	if len(guards) != 1 || len(reapers) != 1 {
		c.t.Fatalf("guards %v, reapers %v", guards, reapers)
	}
	if !orphaned {
		keeper := exec.Command("sleep", "1000")
		keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: reapers[0]}
		if err := keeper.Start(); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = keeper.Process.Kill(); _ = keeper.Wait() })
	}
	for _, pid := range append(guards, reapers...) {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		if err := poll(func() error {
			if s := stateOf(pid); s != "T" {
				return fmt.Errorf("process %d is in state %q, not stopped", pid, s)
			}
			return nil
		}); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
	return reapers[0]
}

// stateOf is what the kernel reports of a process, in one letter; "" when there is none.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// The lock of a mandate that was killed is released after the last sign of life of all that its command
// has started, whatever state its helpers are in.
func TestCrashReleaseComesLast(t *testing.T) {
	t.Run("helpers run", func(t *testing.T) {
		c := newCrash(t)
		a, releases := c.beats(), c.releases()
		_ = a.Process.Kill()
		c.releasedLast(releases)
	})
	t.Run("helpers were stopped", func(t *testing.T) {
		c := newCrash(t)
		a, releases := c.beats(), c.releases()
		c.stopHelpers(a.Process.Pid, true)
		_ = a.Process.Kill()
		c.releasedLast(releases) // the kernel has continued the reaper
	})
	t.Run("helpers stay stopped", func(t *testing.T) {
		c := newCrash(t)
		a, releases := c.beats(), c.releases()
		reaper := c.stopHelpers(a.Process.Pid, false)
		_ = a.Process.Kill()
		<-c.ended[a]
		c.beating(500) // the command outlives mandate
		c.keeps("a")
		if s := stateOf(reaper); s != "T" {
			t.Fatalf("the reaper is in state %q: this shows nothing", s)
		}
		c.beating(50)
		select {
		case at := <-releases:
			t.Fatalf("released at %v beside the command", at)
		default:
		}
		_ = syscall.Kill(reaper, syscall.SIGCONT)
		c.releasedLast(releases)
	})
}

// What a worker has started, also in a session of its own, is dead before the worker's lock is released.
func TestSuperviseReleaseComesLast(t *testing.T) {
	c := newCrash(t)
	a := c.serve("a", "supervise", "--", "sh", "-c", `MANDATE_ID=a MANDATE_ELECTION=e beater tree & exec mandate "$@"`, "worker")
	c.leads("a")
	c.beating(50)
	releases := c.releases()
	worker := 0
	for _, pid := range childrenOf(t, a.Process.Pid) {
		if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(cmdline), "mandate\x00") {
			worker = pid
		}
	}
	if worker == 0 {
		t.Fatal("no worker")
	}
	_ = syscall.Kill(worker, syscall.SIGKILL)
	c.releasedLast(releases)
}

// A releaser that can't reach Redis tries until the lease has passed, or until it is to end. While mandate
// lives it must not end: a service manager or a terminal sends the signal to all processes.
func TestReleaserEnds(t *testing.T) {
	c := newCrash(t)
	a := c.beats()
	releasers := helpersOf(a.Process.Pid, supervise.ReleaserName)
	if len(releasers) != 1 {
		t.Fatalf("releasers %v", releasers)
	}
	releaser := releasers[0]
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", releaser)); err != nil || dir != "/" {
		t.Errorf("the releaser keeps %q busy: %v", dir, err)
	}
	lives := func() bool { s := stateOf(releaser); return s != "" && s != "Z" }
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		_ = syscall.Kill(releaser, sig)
	}
	c.beating(50)
	if !lives() {
		t.Fatal("a signal ended the releaser of a mandate that lives")
	}
	c.redis.Kill()
	_ = a.Process.Kill()
	if err := poll(func() error {
		if left := supervise.Marked("MANDATE_ID=a", "MANDATE_ELECTION=e"); len(left) > 0 {
			return fmt.Errorf("%v live", left)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if !lives() {
		t.Fatal("the releaser does not retry")
	}
	if err := poll(func() error {
		_ = syscall.Kill(releaser, syscall.SIGTERM)
		if lives() {
			return fmt.Errorf("the releaser retries in state %q", stateOf(releaser))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A reaper that is killed costs its command, whose rest mandate searches itself for and kills; the releaser
// is none of it.
func TestReleaserSurvivesAKilledReaper(t *testing.T) {
	c := newCrash(t)
	a := c.beats()
	releasers, reapers := helpersOf(a.Process.Pid, supervise.ReleaserName), helpersOf(a.Process.Pid, supervise.ReaperName)
	if len(releasers) != 1 || len(reapers) != 1 {
		t.Fatalf("releasers %v, reapers %v", releasers, reapers)
	}
	releases := c.releases()
	_ = syscall.Kill(reapers[0], syscall.SIGKILL)
	c.releasedLast(releases) // by mandate
	if now := helpersOf(a.Process.Pid, supervise.ReleaserName); len(now) != 1 || now[0] != releasers[0] {
		t.Errorf("the releasers were %v, and are %v", releasers, now)
	}
}
