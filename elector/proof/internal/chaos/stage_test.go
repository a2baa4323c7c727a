//go:build linux

package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

const election = "chaos"

// stage is all that takes part: servers, candidates, and the proxies between.
type stage struct {
	t        *testing.T
	journal  *Journal
	file     string // of the journal
	nodes    []*servertest.Server
	register *servertest.Server
	cands    []*candidate
	operator *elector.Quorum // past the proxies
	spawn    func(func() error) error
	env      []string // more for the candidates
}

// candidate is one that is started again and again.
type candidate struct {
	s       *stage
	id      string
	command bool // mandate run, not embedded
	argv    []string
	proxies []*Proxy

	mu   sync.Mutex
	cmd  *exec.Cmd
	gone chan struct{}
	log  *os.File
	in   io.Closer // its stdin
}

// newStage starts the servers and makes the candidates, and starts none of them.
func newStage(t *testing.T, workers, commands int) *stage {
	s := &stage{t: t, file: filepath.Join(t.TempDir(), "journal")}
	var err error
	if s.journal, err = OpenJournal(s.file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.journal.Close() })
	s.nodes = servertest.RedisN(t, 3, servertest.AOF...)
	s.register = servertest.Redis(t)
	if s.operator, err = elector.Open(s.nodes[0].URL(), s.nodes[1].URL(), s.nodes[2].URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.operator.Close() })
	s.spawn = newSpawner(t) // its end comes after that of the candidates
	mandate := buildMandate(t)
	for i := range workers + commands {
		c := &candidate{s: s, id: fmt.Sprintf("worker-%d", i), argv: []string{os.Args[0]}}
		if i >= workers {
			c.id, c.command = fmt.Sprintf("command-%d", i), true
			c.argv = []string{mandate, "run", "--election", election, "--id", c.id, "--lease", lease.String(), "--", os.Args[0]}
		}
		for _, n := range s.nodes {
			p, err := NewProxy(n.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			c.proxies = append(c.proxies, p)
		}
		s.cands = append(s.cands, c)
		t.Cleanup(c.discard)
	}
	return s
}

// buildMandate builds the command as a user gets it.
func buildMandate(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "mandate")
	build := exec.Command("go", "build", "-o", bin, "./cmd/mandate")
	build.Dir = "../../../.." // the command's own module
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// start runs the candidate's process.
func (c *candidate) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var urls []string
	for _, p := range c.proxies {
		urls = append(urls, "redis://"+p.Addr())
	}
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	role := "worker"
	if c.command {
		role = "job"
	}
	cmd.Env = append(os.Environ(), roleEnv+"="+role, journalEnv+"="+c.s.file, registerEnv+"="+c.s.register.Addr(),
		idEnv+"="+c.id, redisEnv+"="+strings.Join(urls, ","))
	cmd.Env = append(cmd.Env, c.s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe() // its end tells the command that the test is gone
	if err != nil {
		panic(err)
	}
	if c.log == nil {
		if c.log, err = os.Create(c.s.file + "." + c.id); err != nil {
			panic(err)
		}
	}
	cmd.Stdout, cmd.Stderr = c.log, c.log
	if err := c.s.spawn(cmd.Start); err != nil {
		panic(err)
	}
	c.s.journal.Write(Record{Kind: Heal, Target: "cand:" + c.id})
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(gone)
	}()
	c.cmd, c.gone, c.in = cmd, gone, in
}

// signal sends one to the process of mandate run or of the worker, not to the
// command.
func (c *candidate) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.cmd.Process.Signal(sig) // an error: it has just ended
}

// awaitEnd waits until the process has ended, and kills it after a while.
func (c *candidate) awaitEnd(waitLimit time.Duration) (graceful bool) {
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	defer func() { _ = c.in.Close() }()
	select {
	case <-gone:
		return true
	case <-time.After(waitLimit):
		c.signal(syscall.SIGKILL)
		<-gone
		return false
	}
}

// discard ends the candidate for good.
func (c *candidate) discard() {
	if c.cmd != nil {
		c.signal(syscall.SIGKILL)
		c.awaitEnd(time.Minute)
	}
	if c.log != nil {
		_ = c.log.Close()
		if c.s.t.Failed() {
			b, _ := os.ReadFile(c.log.Name())
			c.s.t.Logf("what %s logged at last:\n%s", c.id, lastLines(string(b), 40))
		}
	}
}

func lastLines(s string, n int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

// watch notes when the machine lets this process wait, until ctx ends.
func (s *stage) watch(ctx context.Context) { watchLateness(ctx, s.journal.Write) }

func watchLateness(ctx context.Context, note func(Record)) {
	const pause = 5 * time.Millisecond
	for ctx.Err() == nil {
		due := Now() + pause
		time.Sleep(pause)
		if now := Now(); now-due > 4*pause {
			note(Record{Kind: Late, At: due, Until: now})
		}
	}
}

// maxWait is how long the tests wait for what should happen: far more than it takes.
const maxWait = time.Minute

// leader is the candidate that leads as the servers see it, nil when nobody does, or they
// don't answer soon.
func (s *stage) leader(soon time.Duration) *candidate {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	el, err := s.operator.Election(election)
	if err != nil {
		panic(err) // a name of ours
	}
	st, err := el.Status(ctx)
	if err != nil || st.Leader == nil {
		return nil
	}
	for _, c := range s.cands {
		if c.id == st.Leader.Candidate {
			return c
		}
	}
	return nil
}

// readRegister reads the register now and then until ctx ends.
func (s *stage) readRegister(ctx context.Context) {
	r := openRegister(s.register.Addr())
	defer r.c.Close()
	for ctx.Err() == nil {
		before := Now()
		name := registerAt(before)
		v, err := r.read(name)
		if err == nil {
			s.journal.Write(Record{Kind: Read, At: before, Until: Now(), Register: name, Value: v})
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// check proves the journal. The bound of a vacancy is a lease, and what the
// abstention of a node that came back empty, split votes and a small busy machine
// add.
func (s *stage) check() Report {
	s.t.Helper()
	return Check(s.readJournal(), Promise{Lease: lease, Vacancy: 2*lease + 3*time.Second, Nodes: len(s.nodes)})
}

func (s *stage) readJournal() []Record {
	s.t.Helper()
	f, err := os.Open(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	journal, err := ReadJournal(f)
	if err != nil {
		s.t.Fatal(err)
	}
	return journal
}
