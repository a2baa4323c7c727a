//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// crashLease is far longer than these tests take: a lock that is free before was released.
const crashLease = time.Minute

// crash is an election of processes that are killed.
type crash struct {
	t        testing.TB
	redis    *servertest.Server // the first one
	urls     string
	started  []*running
	election *elector.Election
	dir      string
	health   string
}

func newCrash(t testing.TB, nodes int) *crash {
	t.Helper()
	servertest.NeedRedis(t)
	c := &crash{t: t, redis: servertest.Redis(t), dir: t.TempDir()}
	urls := []string{c.redis.URL()}
	for len(urls) < nodes {
		urls = append(urls, servertest.Redis(t).URL())
	}
	c.urls = strings.Join(urls, ",")
	var err error
	if c.election, err = openQuorum(t, urls...).Election("e"); err != nil {
		t.Fatal(err)
	}
	healthy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(healthy.Close)
	c.health = healthy.URL
	t.Cleanup(func() { // everything at once, before Redis: a helper would retry for a lease, and hold up go test
		for all := marked(c.mark()); len(all) > 0; all = marked(c.mark()) {
			for _, pid := range all {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		for _, r := range c.started {
			<-r.done
		}
	})
	return c
}

// mark is in the environment of all processes of the election: a variable that helpers inherit, too.
func (c *crash) mark() string { return "SSL_CERT_DIR=" + c.dir }

// start starts a mandate with these arguments.
func (c *crash) start(args ...string) *running {
	return c.startLogging(os.Stderr, args...)
}

func (c *crash) startLogging(log *os.File, args ...string) *running {
	c.t.Helper()
	r := startMandate(c.t, c.dir, c.urls, log, []string{c.mark()}, args...)
	c.started = append(c.started, r)
	return r
}

// run starts a `mandate run` whose command beats, also from a daemon that ignores SIGTERM.
func (c *crash) run(id string, lease time.Duration) *running {
	return c.start("run", "--election", "e", "--id", id, "--lease", lease.String(), "--grace", "100ms", "--", "beater", "tree")
}

// serve is a worker that embeds the elector, below what stands before it.
func (c *crash) serve(id string, before ...string) *running {
	return c.start(append(before, "serve", "--election", "e", "--id", id, "--lease", crashLease.String(), "--health-url", c.health, "--http", "127.0.0.1:0")...)
}

// until waits until f returns no error.
func (c *crash) until(f func() error) {
	c.t.Helper()
	must(c.t, poll(f))
}

// leads waits until this one does, and its command works.
func (c *crash) leads(id string) {
	c.t.Helper()
	c.until(func() error {
		l, err := c.election.Leader(context.Background())
		if err == nil && l.Candidate != id {
			err = fmt.Errorf("%s leads, not %s", l.Candidate, id)
		}
		return err
	})
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

// hasEnded checks how the history has the last term that ended, in these words if some are given.
func (c *crash) hasEnded(id string, reason elector.Reason, words ...string) {
	c.t.Helper()
	c.until(func() error {
		terms, err := c.election.History(context.Background(), 5)
		if err == nil && (len(terms) < 2 || terms[1].Candidate != id || terms[1].Reason != reason || len(words) > 0 && terms[1].Detail != words[0]) {
			err = fmt.Errorf("history is %+v, want a term of %s that ended as %s %q", terms, id, reason, words)
		}
		return err
	})
}

// beater is a command that notes every millisecond that it works, and when: "<who> <nanoseconds>".
// "tree" starts another one first, which has left its parent and its session, and is deaf to SIGTERM.
func beater() int {
	who := os.Args[1]
	start := func(name string) error {
		child := exec.Command("beater", name)
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return child.Start()
	}
	switch id := os.Getenv("MANDATE_ID"); who {
	case "fork":
		if start("daemon") != nil {
			return 1
		}
		return 0
	case "tree":
		if start("fork") != nil {
			return 1
		}
		who = id + ".command"
	case "daemon":
		signal.Ignore(syscall.SIGTERM)
		who = id + ".daemon"
	}
	f, err := os.OpenFile("beats", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := fmt.Fprintln(f, who, time.Now().UnixNano()); err != nil {
			return 1
		}
	}
	return 0
}

// beats are when the processes whose names begin so have worked, in order.
func (c *crash) beats(prefix string) (all map[string][]time.Time) {
	c.t.Helper()
	text, _ := os.ReadFile(filepath.Join(c.dir, "beats"))
	all = map[string][]time.Time{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 2 || !strings.HasPrefix(f[0], prefix) || !strings.HasSuffix(line, "\n") {
			continue
		}
		ns, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			c.t.Fatalf("no beat: %q", line)
		}
		all[f[0]] = append(all[f[0]], time.Unix(0, ns))
	}
	return all
}

// works waits for more beats of a candidate's command and its daemon.
func (c *crash) works(id string) {
	c.t.Helper()
	was := c.beats(id + ".")
	c.until(func() error {
		now := c.beats(id + ".")
		for _, who := range []string{id + ".command", id + ".daemon"} {
			if len(now[who]) < len(was[who])+20 {
				return fmt.Errorf("%s does not work", who)
			}
		}
		return nil
	})
}

// releases has Redis report each deletion of the lock, with its own time of it, which is that of the machine.
func (c *crash) releases() <-chan time.Time {
	c.t.Helper()
	u, err := url.Parse(c.redis.URL())
	must(c.t, err)
	conn, err := net.Dial("tcp", u.Host)
	must(c.t, err)
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

// releasedLast checks that the lock is released after the last beat of the last process of a candidate.
func (c *crash) releasedLast(id string, releases <-chan time.Time) {
	c.t.Helper()
	select {
	case released := <-releases:
		c.endedBefore(id, released)
	case <-time.After(scriptTimeout):
		c.t.Fatal("the lock is not released")
	}
}

func (c *crash) endedBefore(id string, limit time.Time) {
	c.t.Helper()
	time.Sleep(20 * time.Millisecond) // for what a process would write yet
	all := c.beats(id + ".")
	for who, at := range all {
		if last := at[len(at)-1]; last.After(limit) {
			c.t.Errorf("%s worked until %v after it had to be dead", who, last.Sub(limit))
		}
	}
	if len(all) != 2 {
		c.t.Errorf("beats of %d processes, want those of two", len(all))
	}
}

// Whichever process of a leader is killed or stopped, and whichever after it, no process of its command works when
// the lock is free. After a kill it is released at once, and otherwise not before the lease has passed. Only
// mandate and its helper together are a double fault: nothing can know when the daemon is dead then.
func TestKillMatrix(t *testing.T) {
	t.Parallel()
	const (
		released = "released" // without a signal
		lapses   = "lapses"   // with the lease, which is short here
		stays    = "stays"    // until mandate gets SIGTERM
		either   = "either"   // one of those two, depending on who is faster
		fault    = "fault"    // the lock is kept, or released when all are dead
	)
	for _, tc := range []struct{ victims, want string }{
		{"KILL mandate", released},
		{"KILL helper", released},
		{"KILL command", released},
		{"STOP mandate", lapses},
		{"STOP helper", stays},
		{"STOP command", stays},
		{"TRACE helper", stays},

		{"KILL command KILL mandate", released},
		{"KILL command STOP mandate", lapses},
		{"STOP command KILL mandate", released},
		{"STOP command STOP mandate", lapses},
		{"KILL mandate KILL command", released},
		{"KILL mandate STOP command", released},
		{"STOP mandate KILL command", lapses},
		{"STOP mandate STOP command", lapses},

		{"KILL command KILL helper", released},
		{"KILL command STOP helper", either},
		{"STOP command KILL helper", released},
		{"STOP command STOP helper", stays},
		{"KILL helper KILL command", released},
		{"KILL helper STOP command", released},
		{"STOP helper KILL command", either},
		{"STOP helper STOP command", stays},

		{"KILL mandate KILL helper", fault},
		{"KILL mandate STOP helper", fault},
		{"STOP mandate KILL helper", fault},
		{"STOP mandate STOP helper", fault},
		{"KILL helper KILL mandate", fault},
		{"KILL helper STOP mandate", fault},
		{"STOP helper KILL mandate", fault},
		{"STOP helper STOP mandate", fault},
	} {
		t.Run(tc.victims, func(t *testing.T) {
			t.Parallel()
			c, lease := newCrash(t, 1), crashLease
			if tc.want == lapses { // the lease's end is what this shows
				lease = 4 * time.Second
			}
			a := c.run("a", lease)
			c.leads("a")
			c.works("a")
			c.run("b", lease)
			helper := helpersOf(a.Process.Pid)[0]
			pids := map[string]int{"mandate": a.Process.Pid, "helper": helper, "command": childOf(t, helper, "beater\x00tree\x00")}
			releases, at := c.releases(), time.Now()
			sig := syscall.SIGKILL
			for _, word := range strings.Fields(tc.victims) {
				switch word {
				case "TRACE":
					servertest.Trace(t, helper)
					sig = 0
				case "KILL":
					sig = syscall.SIGKILL
				case "STOP":
					sig = syscall.SIGSTOP
				default:
					_ = syscall.Kill(pids[word], sig)
				}
			}
			switch tc.want {
			case released:
				c.releasedLast("a", releases)
				c.leads("b")
			case lapses:
				c.leads("b")
				c.works("b")
				first := c.beats("b.")["b.command"][0]
				c.endedBefore("a", first)
				if d := first.Sub(at); d < lease/2 && !strings.Contains(tc.victims, "KILL") {
					t.Errorf("the next one led after %v: mandate lives, and may renew", d)
				}
			case stays:
				c.keeps("a")
				_ = a.Process.Signal(syscall.SIGTERM)
				c.releasedLast("a", releases)
				c.hasEnded("a", elector.ReasonShutdown)
			case either:
				_ = a.Process.Signal(syscall.SIGTERM)
				c.releasedLast("a", releases)
			case fault:
				select {
				case free := <-releases:
					c.endedBefore("a", free)
				case <-time.After(time.Second):
				}
			}
			switch tc.victims {
			case "KILL mandate":
				c.hasEnded("a", elector.ReasonCrashed)
			case "KILL helper":
				c.hasEnded("a", elector.ReasonFailed, "mandate's helper process was killed, and the command with it")
			case "KILL command":
				c.hasEnded("a", elector.ReasonFailed, "command: signal: killed")
			}
		})
	}
}

// childOf waits for a child of a process whose command line begins like this.
func childOf(t testing.TB, parent int, argv string) (pid int) {
	t.Helper()
	servertest.Eventually(t, scriptTimeout, "a child "+argv, func() bool {
		all := childrenOf(parent, argv)
		if len(all) > 0 {
			pid = all[0]
		}
		return pid > 0
	})
	return pid
}

// What mandate has promised over HTTP holds when it is killed, or the program below its supervisor is: the lock is
// released when the promise has lapsed, and not with the lease.
func TestPromiseHoldsAfterAKill(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"run", "supervise -- mandate serve", "supervise -- mandate run"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			c, addr := newCrash(t, 1), fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
			args := append(strings.Fields(command), "--election", "e", "--id", "a", "--lease", crashLease.String(),
				"--grace", "1500ms", "--http", addr)
			if strings.HasSuffix(command, "serve") {
				args = append(args, "--health-url", c.health)
			} else {
				args = append(args, "--", "beater", "tree")
			}
			a := c.start(args...)
			c.leads("a")
			victim := a.Process.Pid
			if command != "run" {
				victim = childOf(t, victim, "mandate\x00")
			}
			releases := c.releases()
			var until time.Time
			c.until(func() error {
				asked := time.Now()
				res, err := http.Get("http://" + addr + "/leader")
				if err != nil {
					return err
				}
				defer res.Body.Close()
				var answer struct {
					ValidForMS int64 `json:"valid_for_ms"`
				}
				err = json.NewDecoder(res.Body).Decode(&answer)
				if until = asked.Add(time.Duration(answer.ValidForMS) * time.Millisecond); err == nil && answer.ValidForMS < 1000 {
					err = fmt.Errorf("a promise of %d ms", answer.ValidForMS)
				}
				return err
			})
			_ = syscall.Kill(victim, syscall.SIGKILL)
			select {
			case free := <-releases:
				if d := free.Sub(until); d < 0 || d > 20*time.Second {
					t.Errorf("released %v after the promise has lapsed", d)
				}
			case <-time.After(scriptTimeout):
				t.Fatal("the lock is not released")
			}
		})
	}
}

// While Redis is away the helper of a killed mandate tries to release, until a signal ends it. While mandate
// lives no signal ends it: a service manager or a terminal sends them to all processes. A release that fails is in
// mandate's log.
func TestHelperRetriesTheRelease(t *testing.T) {
	t.Parallel()
	c := newCrash(t, 1)
	log, err := os.Create(filepath.Join(c.dir, "log"))
	must(t, err)
	defer log.Close()
	a := c.startLogging(log, "--log-format", "json", "run", "--election", "e", "--id", "a", "--lease", crashLease.String(), "--grace", "100ms", "--", "beater", "tree")
	c.leads("a")
	c.works("a")
	helper := helpersOf(a.Process.Pid)[0]
	lives := func() bool { return syscall.Kill(helper, 0) == nil && !isZombie(helper) }
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		_ = syscall.Kill(helper, sig)
	}
	c.works("a")
	c.redis.Kill()
	_ = a.Process.Kill()
	time.Sleep(time.Second)
	if !lives() {
		t.Fatal("the helper does not retry")
	}
	servertest.Eventually(t, scriptTimeout, "a signal ends the helper", func() bool {
		_ = syscall.Kill(helper, syscall.SIGTERM)
		return !lives()
	})
	if text, err := os.ReadFile(log.Name()); err != nil || !strings.Contains(string(text), `"level":"WARN","msg":"terms not released, they lapse","error":`) {
		t.Errorf("the log is %s, %v", text, err)
	}
}

// A probe whose execve hangs counts as one that fails, while mandate answers. (Commands: supervise's TestSlowExec.)
func TestHungProbeReal(t *testing.T) {
	c, addr := newCrash(t, 1), fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
	t.Setenv("PATH", c.dir+":"+os.Getenv("PATH"))
	c.start("run", "--election", "e", "--id", "a", "--lease", crashLease.String(), "--grace", "100ms", "--http", addr,
		"--probe-exec", "true", "--probe-start-grace", "0", "--probe-interval", "300ms", "--probe-timeout", "300ms", "--", "beater", "tree")
	c.leads("a")
	c.works("a")
	servertest.HungShell(t, filepath.Join(c.dir, "sh"))
	began := time.Now()
	client := http.Client{Timeout: 5 * time.Second}
	for ended := false; !ended; time.Sleep(50 * time.Millisecond) {
		res, err := client.Get("http://" + addr + "/metrics")
		must(t, err)
		res.Body.Close()
		terms, err := c.election.History(context.Background(), 5)
		ended = err == nil && len(terms) > 0 && terms[0].Reason == elector.ReasonUnhealthy
		if time.Since(began) > 20*time.Second { // the kernel ends the hang after 45 s
			t.Fatalf("the history is %+v", terms)
		}
	}
}

// A worker that reports its terms to its supervisor has them released when it dies, once nothing is left that
// it has started. The supervisor exits with its code.
func TestSuperviseReleasesACrash(t *testing.T) {
	t.Parallel()
	c := newCrash(t, 1)
	a := c.serve("a", "supervise", "--", "sh", "-c", `MANDATE_ID=a beater tree & exec mandate "$@"`, "worker")
	c.leads("a")
	c.works("a")
	releases, worker := c.releases(), childOf(t, a.Process.Pid, "mandate\x00")
	c.serve("b")
	_ = syscall.Kill(worker, syscall.SIGKILL)
	c.releasedLast("a", releases)
	c.leads("b")
	c.hasEnded("a", elector.ReasonCrashed)
	a.ends(t, scriptTimeout, 137)
}

// A supervisor that dies first leaves the worker and its lock as they are.
func TestSupervisorDiesFirst(t *testing.T) {
	t.Parallel()
	c := newCrash(t, 1)
	a := c.serve("a", "supervise", "--", "mandate")
	c.leads("a")
	worker := childOf(t, a.Process.Pid, "")
	_ = a.Process.Kill()
	c.keeps("a")
	must(t, syscall.Kill(worker, syscall.SIGKILL))
	c.keeps("a")
}

// A process that is not below the supervisor, and holds the worker's pipe, may work in the worker's name: the lock is left
// to its lease.
func TestPipeHeldElsewhereIsLeftToTheLease(t *testing.T) {
	t.Parallel()
	c := newCrash(t, 1)
	a := c.serve("a", "supervise", "--", "mandate")
	c.leads("a")
	worker := childOf(t, a.Process.Pid, "")
	pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/3", worker), os.O_WRONLY, 0)
	must(t, err)
	defer pipe.Close()
	_ = syscall.Kill(worker, syscall.SIGKILL)
	a.ends(t, scriptTimeout, 137)
	c.keeps("a")
}
