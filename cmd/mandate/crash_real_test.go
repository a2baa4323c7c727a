//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// crashLease is far longer than these tests take: a lock that is free before was released.
const crashLease = 5 * time.Minute

// crash is an election of processes that are killed.
type crash struct {
	t        testing.TB
	redis    *servertest.Server // the first one
	urls     string
	ended    map[*exec.Cmd]chan struct{}
	election *elector.Election
	dir      string
	health   string
}

func newCrash(t testing.TB) *crash {
	t.Helper()
	return newCrashOn(t, 1)
}

func newCrashOn(t testing.TB, nodes int) *crash {
	t.Helper()
	servertest.NeedRedis(t)
	c := &crash{t: t, redis: servertest.Redis(t), dir: t.TempDir(), ended: map[*exec.Cmd]chan struct{}{}}
	urls := []string{c.redis.URL()}
	for len(urls) < nodes {
		urls = append(urls, servertest.Redis(t).URL())
	}
	c.urls = strings.Join(urls, ",")
	q, err := elector.Open(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	if c.election, err = q.Election("e"); err != nil {
		t.Fatal(err)
	}
	healthy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(healthy.Close)
	c.health = healthy.URL
	if err := os.WriteFile(filepath.Join(c.dir, "journal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts a mandate with these arguments.
func (c *crash) start(args ...string) *exec.Cmd {
	c.t.Helper()
	cmd := exec.Command("mandate", args...)
	cmd.Dir, cmd.Stderr = c.dir, os.Stderr
	cmd.Env = append(os.Environ(), "MANDATE_REDIS="+c.urls, "GORACE="+noExitPause)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	done := make(chan struct{})
	c.ended[cmd] = done
	go func() { _ = cmd.Wait(); close(done) }()
	c.t.Cleanup(func() {
		releasers := helpersOf(cmd.Process.Pid, supervise.ReleaserName)
		_ = cmd.Process.Kill()
		<-done
		for _, pid := range releasers { // without Redis, which ends next, it would retry for a lease
			if err := poll(func() error {
				if s := stateOf(pid); s != "" && s != "Z" {
					return fmt.Errorf("releaser %d does not end", pid)
				}
				return nil
			}); err != nil {
				c.t.Error(err)
			}
		}
	})
	return cmd
}

// run starts a `mandate run` whose command beats, also from a session of its own.
func (c *crash) run(id string) *exec.Cmd {
	return c.start("run", "--election", "e", "--id", id, "--lease", crashLease.String(), "--grace", "100ms", "--", "sh", "-c", shardBeats)
}

// serve is a worker that embeds the elector, below what stands before it.
func (c *crash) serve(id string, before ...string) *exec.Cmd {
	return c.start(append(before, "serve", "--election", "e", "--id", id, "--lease", crashLease.String(), "--health-url", c.health, "--http", "127.0.0.1:0")...)
}

// leads waits until this one does, and its command works.
func (c *crash) leads(id string) {
	c.t.Helper()
	if err := poll(func() error {
		l, err := c.election.Leader(context.Background())
		if err == nil && l.Candidate != id {
			err = fmt.Errorf("%s leads, not %s", l.Candidate, id)
		}
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
}

// worksAs waits until the command of this one has written.
func (c *crash) worksAs(id string) {
	c.t.Helper()
	if err := poll(func() error {
		text, err := os.ReadFile(filepath.Join(c.dir, "journal"))
		if err == nil && strings.Count(string(text), " "+id+" ") < 4 {
			err = errors.New("the command does not work")
		}
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
}

// keeps fails the test if the lock of this one is released within a second, which is far more than a
// release takes.
func (c *crash) keeps(id string) {
	c.t.Helper()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if l, err := c.election.Leader(context.Background()); err != nil || l.Candidate != id {
			c.t.Fatalf("the lock of %s was released: %s leads, %v", id, l.Candidate, err)
		}
	}
}

// crashed checks how the history has the last term that ended.
func (c *crash) crashed(id string) {
	c.t.Helper()
	if err := poll(func() error {
		terms, err := c.election.History(context.Background(), 5)
		if err == nil && (len(terms) < 2 || terms[1].Candidate != id || terms[1].Reason != elector.ReasonCrashed) {
			err = fmt.Errorf("history is %+v, want a term of %s that crashed", terms, id)
		}
		return err
	}); err != nil {
		c.t.Error(err)
	}
}

// childrenOf waits for a child of a process, and returns all.
func childrenOf(t testing.TB, pid int) (children []int) {
	t.Helper()
	if err := poll(func() error {
		all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, file := range all {
			text, _ := os.ReadFile(file)
			for _, f := range strings.Fields(string(text)) {
				child, _ := strconv.Atoi(f)
				children = append(children, child)
			}
		}
		if err == nil && len(children) == 0 {
			err = errors.New("no child")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return children
}

// A mandate that is killed has its term released once nothing of the command is left, also of what left
// its session.
func TestCrashIsReleased(t *testing.T) {
	c := newCrash(t)
	a := c.run("a")
	c.leads("a")
	c.worksAs("a")
	c.run("b")
	_ = a.Process.Kill()
	c.leads("b")
	c.worksAs("b")
	c.crashed("a")
	text, err := os.ReadFile(filepath.Join(c.dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := oneAtATime(string(text)); len(problems) > 0 {
		t.Error(problems)
	}
}

// When the reaper is killed, too, nobody knows whether all that the command has started is gone: the
// lock is left to its lease.
func TestCrashWithoutReaperIsLeftToTheLease(t *testing.T) {
	c := newCrash(t)
	a := c.run("a")
	c.leads("a")
	c.worksAs("a")
	reapers := helpersOf(a.Process.Pid, supervise.ReaperName)
	if len(reapers) != 1 {
		t.Fatalf("reapers %v", reapers)
	}
	_ = a.Process.Signal(syscall.SIGSTOP) // it must not clean up in between
	_ = syscall.Kill(reapers[0], syscall.SIGKILL)
	_ = a.Process.Kill()
	c.keeps("a")
	for _, p := range supervise.Marked("MANDATE_ID=a", "MANDATE_ELECTION=e") {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// A worker that reports its terms to its supervisor has them released when it dies. The supervisor
// exits with its code.
func TestSuperviseReleasesACrash(t *testing.T) {
	c := newCrash(t)
	a := c.serve("a", "supervise", "--", "mandate")
	c.leads("a")
	c.serve("b")
	_ = syscall.Kill(childrenOf(t, a.Process.Pid)[0], syscall.SIGKILL)
	c.leads("b")
	c.crashed("a")
	select {
	case <-c.ended[a]:
	case <-time.After(scriptTimeout):
		t.Fatal("the supervisor does not end")
	}
	if code := a.ProcessState.ExitCode(); code != 137 {
		t.Errorf("the supervisor ended with %d, want 137", code)
	}
}

// A supervisor that dies first leaves the worker and its lock as they are.
func TestSupervisorDiesFirst(t *testing.T) {
	c := newCrash(t)
	a := c.serve("a", "supervise", "--", "mandate")
	c.leads("a")
	worker := childrenOf(t, a.Process.Pid)[0]
	_ = a.Process.Kill()
	c.keeps("a")
	if err := syscall.Kill(worker, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.keeps("a")
}

// A process that is not below the supervisor, and holds the worker's pipe, may work in the worker's name: the lock is left
// to its lease.
func TestPipeHeldElsewhereIsLeftToTheLease(t *testing.T) {
	c := newCrash(t)
	a := c.serve("a", "supervise", "--", "mandate")
	c.leads("a")
	worker := childrenOf(t, a.Process.Pid)[0]
	pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/3", worker), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	_ = syscall.Kill(worker, syscall.SIGKILL)
	select {
	case <-c.ended[a]:
	case <-time.After(scriptTimeout):
		t.Fatal("the supervisor does not end")
	}
	c.keeps("a")
}
