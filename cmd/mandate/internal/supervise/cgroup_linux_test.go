package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needCgroup skips where none was delegated to the test. With -v, as CI runs it, a test
// says either way.
func needCgroup(t *testing.T) (own string) {
	t.Helper()
	c, err := newCgroup()
	if err != nil {
		t.Skipf("NO CGROUP HERE: what needs one is NOT tested: %v", err)
	}
	c.remove()
	t.Logf("tested with a cgroup below %s", filepath.Dir(string(c)))
	return filepath.Dir(string(c))
}

// contained starts a script in a cgroup of its own.
func contained(t *testing.T, until time.Duration, n int, script string) (*Process, []int) {
	t.Helper()
	p, pids := startIn(t, Command{Cgroup: true}, until, n, script)
	if dir, err := p.Cgroup(); dir == "" || err != nil {
		t.Fatalf("cgroup %q, %v", dir, err)
	}
	return p, pids
}

// into puts a process into a cgroup: it stands for a daemon that the command has started
// and that is not below the reaper any more.
func into(t *testing.T, c cgroup, pid int) {
	t.Helper()
	if err := os.WriteFile(c.file("cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
}

// gone reports whether a process has ended, whoever is to reap it.
func gone(pid int) bool { p, ok := readProcess(pid); return !ok || p.dead }

func removed(t *testing.T, c cgroup) {
	t.Helper()
	if _, err := os.Stat(string(c)); !os.IsNotExist(err) {
		t.Errorf("the cgroup is still there: %v", err)
	}
}

// fakeCgroup looks like a cgroup with a member that ends when all are to be killed: for
// machines where none was delegated.
func fakeCgroup(t *testing.T) cgroup {
	t.Helper()
	c := cgroup(t.TempDir())
	write := func(name, text string) {
		tmp := c.file(name + ".tmp")
		if os.WriteFile(tmp, []byte(text), 0o600) != nil || os.Rename(tmp, c.file(name)) != nil { // never half written
			t.Error("can't write " + name)
		}
	}
	write("cgroup.events", "populated 1\nfrozen 0\n")
	write("cgroup.kill", "")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			switch order, err := os.ReadFile(c.file("cgroup.kill")); {
			case err != nil: // the test is over
				return
			case string(order) == "1":
				write("cgroup.events", "populated 0\nfrozen 0\n")
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	t.Cleanup(func() { os.Remove(c.file("cgroup.kill")); <-ended })
	return c
}

// Nothing is said to be gone while the cgroup has a member, and it is killed after the
// command, too.
func TestCgroupIsWaitedFor(t *testing.T) {
	p, _ := start(t, time.Hour, 0, "exit 0")
	p.tree.cgroup = fakeCgroup(t)
	<-p.gone
	if p.Terminate(); p.AwaitGone(time.After(50*time.Millisecond), nil) {
		t.Error("said to be gone while its cgroup has a member")
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Error("not gone after SIGKILL")
	}
	if order, err := os.ReadFile(p.tree.cgroup.file("cgroup.kill")); string(order) != "1" {
		t.Errorf("cgroup.kill holds %q, %v", order, err)
	}
}

// A guard that finds the reaper dead kills what is in the cgroup all the same.
func TestGuardKillsTheCgroup(t *testing.T) {
	o, ok := readKeepAlive(string(keepAlive{tree: tree{root: 1 << 30, cgroup: fakeCgroup(t)}}.line()))
	if !ok {
		t.Fatal("no keepAlive")
	}
	o.enforce()
	if o.tree.cgroup.populated() {
		t.Error("the cgroup has a member")
	}
}

// Only what is known to be empty or removed has no member: a machine that is out of
// file descriptors knows nothing.
func TestUnreadableCgroupMayHaveMembers(t *testing.T) {
	c := cgroup(t.TempDir())
	if c.populated() {
		t.Error("one that was removed has members")
	}
	if err := os.Mkdir(c.file("cgroup.events"), 0o700); err != nil { // it can be opened, and not be read
		t.Fatal(err)
	}
	if !c.populated() {
		t.Error("one that can't be read has none")
	}
}

// The command and all that it starts are members, and the helpers are not.
func TestCgroupHoldsTheCommandAlone(t *testing.T) {
	needCgroup(t)
	p, pids := contained(t, time.Hour, len(leavers)+1, everyLeaver()+"echo $$ >>$PIDS; sleep 60")
	var found []int
	for _, m := range p.tree.cgroup.members() {
		found = append(found, m.PID)
	}
	for _, pid := range pids {
		if !slices.Contains(found, pid) {
			t.Errorf("process %d is not a member: %v", pid, found)
		}
	}
	if slices.Contains(found, p.tree.root) || slices.Contains(found, p.GuardPID()) {
		t.Errorf("a helper is a member: %v", found)
	}
	group := p.tree.cgroup
	if p.Terminate(); p.AwaitGone(time.After(100*time.Millisecond), nil) {
		t.Fatal("said to be gone while a process that ignores SIGTERM lives")
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
	noneLeft(t, pids)
	p.Close()
	removed(t, group)
}

// What is in the cgroup counts, and is killed, also when it is not below the reaper.
func TestCgroupMemberElsewhere(t *testing.T) {
	needCgroup(t)
	p, _ := contained(t, time.Hour, 1, "echo $$ >>$PIDS; exec sleep 60")
	group := p.tree.cgroup
	_, pids := start(t, time.Hour, 1, "echo $$ >>$PIDS; exec sleep 60")
	into(t, group, pids[0])
	syscall.Kill(p.PID(), syscall.SIGKILL)
	<-p.gone
	if p.AwaitGone(time.After(50*time.Millisecond), nil) {
		t.Fatal("said to be gone while its cgroup has a member")
	}
	if left := p.Left(); len(left) != 1 || left[0].PID != pids[0] {
		t.Errorf("left: %v, want %d", left, pids[0])
	}
	if p.Close(); gone(pids[0]) { // as when mandate gives up: it must not be lost
		t.Error("a member was killed by the removal of its cgroup")
	}
	if !p.Kill(time.After(waitLimit)) {
		t.Fatal("not gone after SIGKILL")
	}
	if !gone(pids[0]) {
		t.Error("the member lives")
	}
	p.Close()
	removed(t, group)
}

// The guard kills all members, even when the reaper and mandate have been killed
// together: then nobody else knows what the command has started.
func TestGuardKillsTheCgroupOfTheDead(t *testing.T) {
	own := needCgroup(t)
	_, pids := felled(t, syscall.SIGKILL, everyLeaver()+"echo $$ >>$PIDS; sleep 60", len(leavers)+1, "SUPERVISE_CGROUP=1")
	for _, pid := range pids {
		await(t, "the end of an orphan", func() bool { return gone(pid) })
	}
	await(t, "the end of the cgroup", func() bool {
		left, _ := filepath.Glob(filepath.Join(own, "mandate-*"))
		return !slices.ContainsFunc(left, func(dir string) bool {
			pid, _ := strconv.Atoi(strings.Split(filepath.Base(dir), "-")[1])
			return pid != os.Getpid() && gone(pid)
		})
	})
}

// So does the reaper, when mandate is dead and there is no guard.
func TestReaperKillsTheCgroup(t *testing.T) {
	needCgroup(t)
	p, _ := contained(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	group := p.tree.cgroup
	_, pids := start(t, time.Hour, 1, "echo $$ >>$PIDS; sleep 60")
	into(t, group, pids[0])
	p.Close()
	if !p.AwaitGone(time.After(waitLimit), nil) {
		t.Fatal("something is left")
	}
	await(t, "the end of the member", func() bool { return gone(pids[0]) })
	await(t, "the end of the cgroup, which the reaper removes", func() bool {
		_, err := os.Stat(string(group))
		return os.IsNotExist(err)
	})
}

// A cgroup that can't be entered is no reason not to run, and is not believed in.
func TestRunsOutsideOfACgroupThatRefuses(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/nonexistent"} {
		a := assignment{Command: Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "exit 7"}}, Cgroup: cgroup(dir)}
		pid, outside, err := a.start()
		if err != nil || outside == nil {
			t.Fatalf("%d, %v, %v: want a process outside", pid, outside, err)
		}
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 7 {
			t.Errorf("%v, %v", ws, err)
		}
		a.Command.Path = "/nonexistent"
		if _, _, err := a.start(); err == nil || errnoOf(err) != syscall.ENOENT {
			t.Errorf("the command's own error became %v", err)
		}
	}
}

// Groups of mandates that were killed are removed, others are left alone.
func TestAbandonedCgroups(t *testing.T) {
	own := needCgroup(t)
	mine := cgroupName(os.Getpid(), identify(os.Getpid()))
	keep := []string{mine + "-1", "mandate-x-y-1", "somebody-1-1-1", cgroupName(1<<30, 1) + "-members"}
	stale := []string{cgroupName(os.Getpid(), 1) + "-1", cgroupName(1<<30, 1) + "-empty"}
	for _, name := range append(keep, stale...) {
		dir := filepath.Join(own, name)
		if err := os.MkdirAll(filepath.Join(dir, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cgroup(dir).remove() })
	}
	into(t, cgroup(filepath.Join(own, keep[3])), sibling(t).Process.Pid)
	t.Cleanup(func() { cgroup(filepath.Join(own, keep[3])).kill() })
	c, err := newCgroupIn(own)
	if err != nil {
		t.Fatal(err)
	}
	c.remove()
	removed(t, c)
	for _, name := range keep {
		if _, err := os.Stat(filepath.Join(own, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range stale {
		removed(t, cgroup(filepath.Join(own, name)))
	}
}

func TestFindCgroup(t *testing.T) {
	const v2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	const hybrid = "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct{ groups, mounts, want string }{
		"a unit":            {"0::/system.slice/a.service\n", v2, "/sys/fs/cgroup/system.slice/a.service"},
		"a container":       {"0::/\n", v2, "/sys/fs/cgroup"},
		"hybrid":            {"8:cpu:/x\n0::/y\n", hybrid, "/sys/fs/cgroup/unified/y"},
		"version 1":         {"8:cpu:/x\n", hybrid, ""},
		"no mount":          {"0::/\n", "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", ""},
		"a part is mounted": {"0::/a/b\n", "30 25 0:26 /a /mnt/c\\040d rw - cgroup2 none rw\n", "/mnt/c d/b"},
		"another part is":   {"0::/a/b\n", "30 25 0:26 /ab /mnt rw - cgroup2 none rw\n", ""},
		"outside of ours":   {"0::/../x\n", v2, ""},
		"the first is not":  {"0::/a\n", "29 25 0:26 /z /mnt rw - cgroup2 none rw\n" + v2, "/sys/fs/cgroup/a"},
		"garbage":           {"0::/a\n", "x\ny - z\n - cgroup2 \n", ""},
	} {
		if got, err := findCgroup(c.groups, c.mounts); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	if managed("/sys/fs/cgroup/system.slice/a.service") == nil || managed("/sys/fs/cgroup/x") != nil {
		t.Error("a unit without Delegate=yes is systemd's, and nothing else is")
	}
}
