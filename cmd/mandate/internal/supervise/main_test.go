//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if Dispatch(map[string]func(){ReleaserName: func() { time.Sleep(waitLimit) }}) { // its work is the command's
		return
	}
	if os.Getenv("SUPERVISE_DELETED") != "" {
		deleted()
	}
	if script := os.Getenv("SUPERVISE_FELLED"); script != "" {
		felledWithoutReaper(script)
	}
	os.Exit(m.Run())
}

// felledWithoutReaper is a mandate whose reaper is killed, and that gets a signal itself
// before it can do anything about it.
func felledWithoutReaper(script string) {
	Adopt()
	os.Unsetenv("SUPERVISE_FELLED")
	n, _ := strconv.Atoi(os.Getenv("SUPERVISE_PROCESSES"))
	p, err := Start(Command{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: os.Environ(), Cgroup: os.Getenv("SUPERVISE_CGROUP") != ""}, Now().Add(time.Hour))
	if err != nil {
		panic(err)
	}
	for text := []byte(nil); strings.Count(string(text), "\n") < n; time.Sleep(time.Millisecond) {
		text, _ = os.ReadFile(os.Getenv("PIDS"))
	}
	if beside := os.Getenv("SUPERVISE_BESIDE"); beside != "" { // another command, whose time is not over
		if _, err := Start(Command{Path: "/bin/sh", Argv: []string{"sh", "-c", beside}, Env: os.Environ()}, Now().Add(time.Hour)); err != nil {
			panic(err)
		}
		for _, err := os.Stat(os.Getenv("PIDS") + ".beside"); err != nil; _, err = os.Stat(os.Getenv("PIDS") + ".beside") {
			time.Sleep(time.Millisecond)
		}
	}
	// The guard must not act before the signal: it is stopped until the test has seen that. Nor may the reaper kill the tree.
	stop(p.GuardPID())
	stop(p.tree.root)
	p.Extend(Now())
	if os.WriteFile(os.Getenv("GUARD"), []byte(strconv.Itoa(p.GuardPID())), 0o600) != nil {
		panic("the guard's number can't be written")
	}
	syscall.Kill(p.tree.root, syscall.SIGKILL)
	<-p.gone
	sig, _ := strconv.Atoi(os.Getenv("SUPERVISE_SIGNAL"))
	syscall.Kill(os.Getpid(), syscall.Signal(sig))
	time.Sleep(time.Minute)
}

// felled starts such a mandate, and returns its number and, once the signal has reached
// it, those of the processes of its command.
func felled(t *testing.T, sig syscall.Signal, script string, n int, env ...string) (mandate *exec.Cmd, pids []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	guard := filepath.Join(t.TempDir(), "guard")
	t.Cleanup(func() { sweep(t, file) })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, "GORACE=atexit_sleep_ms=0", "SUPERVISE_FELLED="+script, "PIDS="+file, "GUARD="+guard, "SUPERVISE_SIGNAL="+strconv.Itoa(int(sig)), "SUPERVISE_PROCESSES="+strconv.Itoa(n))...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	us := tree{root: cmd.Process.Pid, start: identify(cmd.Process.Pid)}
	await(t, "the signal", func() bool { return us.rootStopped() || closed(ended) })
	if pids = numbers(t, file); len(pids) != n {
		t.Fatalf("processes %v, want %d", pids, n)
	}
	for _, pid := range numbers(t, guard) {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	return cmd, pids
}

// deleted is a mandate whose file is removed before it starts anything.
func deleted() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(os.Remove(os.Getenv("SUPERVISE_DELETED")))
	os.Unsetenv("SUPERVISE_DELETED")
	p, err := Start(Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "sleep 60"}, Env: os.Environ()}, Now().Add(time.Hour))
	must(err)
	syscall.Kill(p.GuardPID(), syscall.SIGKILL)
	<-p.GuardGone()
	must(p.ReplaceGuard())
	p.Extend(Now())
	<-p.Exited()
	if !p.KilledByGuard() {
		panic("the new guard did not kill the command")
	}
	os.Exit(0)
}

// waitLimit is how long the tests wait for what should happen: far more than it takes.
const waitLimit = 30 * time.Second

// start runs a shell script that notes the numbers of its processes (one a line) in
// the file $PIDS, and waits until there are n.
func start(t *testing.T, until time.Duration, n int, script string) (p *Process, pids []int) {
	t.Helper()
	return startIn(t, Command{}, until, n, script)
}

// startIn is start with what else a Command says.
func startIn(t *testing.T, c Command, until time.Duration, n int, script string) (p *Process, pids []int) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // built with -race the helpers would take a second to end
	file := filepath.Join(t.TempDir(), "pids")
	c.Path, c.Argv, c.Env = "/bin/sh", []string{"sh", "-c", script}, append(os.Environ(), "PIDS="+file)
	p, err := Start(c, Now().Add(until))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sweep(t, file) // first: a Kill that is broken must not be waited for
		p.Kill(time.After(waitLimit))
		p.Close()
	})
	await(t, "the numbers of the processes", func() bool {
		pids = numbers(t, file)
		return len(pids) >= n
	})
	return p, pids
}

// numbers reads a file of them.
func numbers(t *testing.T, file string) (pids []int) {
	t.Helper()
	text, _ := os.ReadFile(file)
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, waitLimit)
		}
	}
}

// reaped reports whether no trace of a process is left.
func reaped(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func noneLeft(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if !reaped(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// sibling is a process that none of this concerns.
func sibling(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.Process.Kill() != nil {
			t.Error("a process that is none of the command's was killed")
		}
		cmd.Wait()
	})
	return cmd
}
