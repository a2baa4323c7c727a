//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

const (
	chaosTime  = 25 * time.Second
	chaosLease = 2 * time.Second
	// What a lease promises, and then what a small machine may add that runs all
	// of this, under the race detector, and other tests beside it.
	chaosAllowance = 15 * time.Second
	chaosFaults    = 3 // at least, however long they take there
	waitLimit      = time.Minute
)

func TestChaosRealSQLite(t *testing.T) {
	chaos(t, filepath.Join(t.TempDir(), "legacy.db"))
}

func TestChaosRealPostgres(t *testing.T) { chaos(t, servertest.Postgres(t)) }

// chaos runs producers and three workers as processes, and takes the leader
// away again and again: killed, stopped and resumed, hung; now and then the queue's
// Redis dies and comes back.
func chaos(t *testing.T, db string) {
	c := newCrew(t, db)
	for _, name := range []string{"producer-1", "producer-2"} {
		c.start(name, "produce", "--rate", "40", "--late", "0.2", "--late-by", "2s", "--rollback", "0.05")
	}
	c.start("worker-3", c.work("worker-3", "--stall-after", "2s")...) // it leads first, and hangs
	c.leaderAfter(0)
	c.start("worker-1", c.work("worker-1")...)
	c.start("worker-2", c.work("worker-2")...)
	faults := c.torment()
	for _, name := range []string{"producer-1", "producer-2"} {
		c.end(name)
	}
	c.verify(db, faults)
}

// newCrew has three Redis servers and no process yet.
func newCrew(t testing.TB, db string) *crew {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{t: t, dir: t.TempDir(), self: self, procs: map[string]*process{}, common: []string{"--db", db}}
	servers := servertest.RedisN(t, 3, servertest.AOF...)
	c.queue = servers[0] // it votes too
	for _, s := range servers {
		c.urls = append(c.urls, s.URL())
		c.common = append(c.common, "--redis", s.URL())
	}
	if c.quorum, err = elector.Open(c.urls...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.quorum.Close() })
	t.Cleanup(c.endAll)
	return c
}

// crew is the processes of one test.
type crew struct {
	t      testing.TB
	dir    string
	self   string // the program
	env    []string
	common []string // arguments of every process
	urls   []string
	quorum *elector.Quorum
	procs  map[string]*process
	queue  *servertest.Server
}

type process struct {
	cmd  *exec.Cmd
	args []string
	done chan struct{}
}

func (c *crew) work(id string, more ...string) []string {
	return append([]string{"work", "--id", id, "--lease", chaosLease.String(), "--stall", "1s", "--claim-after", "2s",
		"--batch", "2"}, more...) // small, so that most of the time there is one under way
}

func (c *crew) start(name string, args ...string) {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(c.self, append(args, c.common...)...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	p := &process{cmd, args, make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
	}()
	c.procs[name] = p
}

// leaderAfter waits for a leader with a newer token.
func (c *crew) leaderAfter(token uint64) elector.Leader {
	c.t.Helper()
	el, err := c.quorum.Election("poller")
	if err != nil {
		c.t.Fatal(err)
	}
	for limit := time.Now().Add(waitLimit); ; time.Sleep(20 * time.Millisecond) {
		st, err := el.Status(context.Background())
		if err == nil && st.Leader != nil && st.Leader.Token > token {
			return *st.Leader
		}
		if time.Now().After(limit) {
			c.logs()
			c.t.Fatalf("no leader after token %d: %+v, %v", token, st, err)
		}
	}
}

// feeding waits until the leader has fed: a leader that never did is none that could
// be taken away.
func (c *crew) feeding() elector.Leader {
	c.t.Helper()
	q, err := openQueue(c.urls[0])
	if err != nil {
		c.t.Fatal(err)
	}
	defer q.close()
	for limit := time.Now().Add(waitLimit); ; time.Sleep(5 * time.Millisecond) {
		leader := c.leaderAfter(0)
		token, err := q.client.HGet(context.Background(), checkpointKey, "token").Uint64()
		if err == nil && token == leader.Token {
			return leader
		}
		if time.Now().After(limit) {
			c.logs()
			c.t.Fatalf("the leader does not feed: %+v, token %d, %v", leader, token, err)
		}
	}
}

// torment returns how many leaders it has taken away. One fault at a time, so that
// there is always somebody who can take over.
func (c *crew) torment() (faults int) {
	seed := rand.Uint64()
	c.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	for end := time.Now().Add(chaosTime); time.Now().Before(end) || faults < chaosFaults; faults++ {
		leader := c.feeding()
		// Anywhere in its work, or while it feeds what has piled up: in the middle of
		// a batch.
		time.Sleep(time.Duration(random.Int64N(int64([]time.Duration{2 * time.Second, 100 * time.Millisecond}[random.IntN(2)]))))
		name := leader.Candidate
		p := c.procs[name]
		if random.IntN(3) == 0 { // answers get lost: was it fed, or not?
			c.queue.Restart(c.t)
		}
		switch {
		case name == "worker-3": // hangs by itself
			c.leaderAfter(leader.Token)
		case random.IntN(2) == 0:
			_ = p.cmd.Process.Kill()
			<-p.done
			c.leaderAfter(leader.Token)
			c.start(name, p.args...)
		default:
			_ = p.cmd.Process.Signal(syscall.SIGSTOP)
			c.leaderAfter(leader.Token)
			time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
			_ = p.cmd.Process.Signal(syscall.SIGCONT) // in the middle of whatever it did
		}
	}
	return faults
}

// end asks a process to stop, and wants it to.
func (c *crew) end(name string) {
	c.t.Helper()
	p := c.procs[name]
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			c.logs()
			c.t.Errorf("%s: exit code %d after SIGTERM", name, code)
		}
	case <-time.After(waitLimit):
		c.t.Errorf("%s has not ended %v after SIGTERM", name, waitLimit)
	}
}

func (c *crew) endAll() {
	for _, p := range c.procs {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (c *crew) verify(where string, faults int) {
	db, err := openDatabase(c.t.Context(), where)
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	q, err := openQueue(c.urls[0])
	if err != nil {
		c.t.Fatal(err)
	}
	defer q.close()
	r, err := verifyWithin(c.t.Context(), db, q, waitLimit)
	if err != nil {
		c.t.Fatal(err)
	}
	var words bytes.Buffer
	r.print(&words)
	c.t.Logf("%d leaders were taken away\n%s", faults, words.String())
	if len(r.terms) <= faults {
		err = fmt.Errorf("%d terms for %d faults", len(r.terms), faults)
	}
	if err := errors.Join(err, r.verdict(chaosLease+chaosAllowance)); err != nil {
		c.logs()
		c.t.Fatal(err)
	}
	for name := range c.procs {
		if name[0] == 'w' {
			c.end(name)
		}
	}
}

func (c *crew) logs() {
	if c == nil {
		return
	}
	for name := range c.procs {
		b, _ := os.ReadFile(filepath.Join(c.dir, name+".log"))
		if len(b) > 4000 {
			b = b[len(b)-4000:]
		}
		c.t.Logf("--- %s\n%s", name, b)
	}
}
