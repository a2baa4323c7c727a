//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// laneKind is how the candidates of a lane lead.
type laneKind struct {
	lease time.Duration
	run   bool // mandate run; otherwise a worker below mandate supervise
}

// lane is one election, whose leader is killed again and again. It belongs to one goroutine.
type lane struct {
	*storm
	laneKind
	name  string
	dir   string
	alive *os.File // the stdin of all processes: its end ends them
	hold  *os.File // its other end
	log   *os.File // their stderr
	rnd   *rand.Rand
	nodes *elector.Quorum            // past the proxies
	cands map[string]*stormCandidate // by id
	next  int
	seen  int64    // how much of the journal was read
	begun []Record // what it holds, and what nothing could release
}

type stormCandidate struct {
	cmd     *exec.Cmd // mandate
	gone    chan struct{}
	proxies []*Proxy // to the servers, in a lane whose lease is short
}

func (c *stormCandidate) mandate() int { return c.cmd.Process.Pid }

func (c *stormCandidate) hasGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func newLane(s *storm, name string, kind laneKind, rnd *rand.Rand) *lane {
	l := &lane{storm: s, laneKind: kind, name: name, dir: s.t.TempDir(), rnd: rnd, cands: map[string]*stormCandidate{}}
	err := os.WriteFile(filepath.Join(l.dir, "journal"), nil, 0o600)
	if err == nil {
		l.alive, l.hold, err = os.Pipe()
	}
	if err == nil {
		l.log, err = os.Create(filepath.Join(l.dir, "log"))
	}
	if err == nil {
		l.nodes, err = elector.Open(s.urls()...)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// long lanes are released after each kill, and have a second process in each term.
func (l *lane) long() bool { return l.lease == longLease }

// play kills one leader after the other, while two others follow.
func (l *lane) play() {
	defer l.report()
	for range 3 {
		l.start()
	}
	var leader Record
	for l.more() {
		began, ok := l.awaitBegin(leader.Token)
		if !ok {
			return
		}
		leader = began
		if l.long() && !l.awaitChild(leader.Token) {
			return
		}
		time.Sleep(time.Duration(l.rnd.Int64N(int64(30 * time.Millisecond))))
		at := Now()
		what, after := l.strike(leader, l.draw())
		l.start()
		began, ok = l.awaitBegin(leader.Token)
		after()
		if !ok {
			l.t.Errorf("lane %s: after a kill of %s (%s, token %d) no other leader worked within %v", l.name, what, leader.Who, leader.Token, maxWait)
			return
		}
		l.killed(what, began.At-at)
	}
}

// start starts one more candidate.
func (l *lane) start() {
	l.discard()
	l.next++
	id := fmt.Sprintf("%s-%d", l.name, l.next)
	args := []string{"--log-level", "error", "supervise", "--", os.Args[0]}
	role := "storm-worker"
	if l.run {
		args = []string{"--log-level", "error", "run", "--election", l.name, "--id", id, "--lease", l.lease.String(), "--", os.Args[0]}
		role = "storm-job"
	}
	c := &stormCandidate{gone: make(chan struct{})}
	urls := l.urls()
	if !l.long() {
		for i, server := range l.servers {
			p, err := NewProxy(server.Addr())
			if err != nil {
				l.t.Error(err)
				return
			}
			c.proxies = append(c.proxies, p)
			urls[i] = "redis://" + p.Addr()
		}
	}
	cmd := exec.Command(l.mandate, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), electionEnv+"="+l.name, roleEnv+"="+role, dirEnv+"="+l.dir, leaseEnv+"="+l.lease.String(), idEnv+"="+id,
		redisEnv+"="+strings.Join(urls, ","))
	if l.long() {
		cmd.Env = append(cmd.Env, childEnv+"=1")
	}
	cmd.Stdin, cmd.Stderr = l.alive, l.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := l.spawn(cmd.Start); err != nil {
		l.t.Error(err)
		return
	}
	c.cmd = cmd
	go func() {
		_ = cmd.Wait()
		close(c.gone)
	}()
	l.cands[id] = c
}

// discard forgets the candidates that have ended. Some of them live: a mandate run whose command was killed is a
// candidate as before, and a supervisor that can't release tries that until the lease is over.
func (l *lane) discard() {
	for id, c := range l.cands {
		if c.hasGone() {
			for _, p := range c.proxies {
				p.Close()
			}
			delete(l.cands, id)
		}
	}
}

// processesOf are those that have begun to work in a term.
func (l *lane) processesOf(token uint64) (pids []int) {
	for _, r := range l.begun {
		if r.Token == token {
			pids = append(pids, r.PID)
		}
	}
	return pids
}

// awaitBegin waits for the begin of work in a term after that one.
func (l *lane) awaitBegin(after uint64) (began Record, ok bool) {
	return l.await(func(r Record) bool { return r.Kind == Begin && r.Token > after })
}

// awaitChild waits until the second process of a term works.
func (l *lane) awaitChild(token uint64) bool {
	_, ok := l.await(func(r Record) bool { return r.Kind == Beside && r.Token == token })
	if !ok {
		l.t.Errorf("lane %s: the second process of the term %d does not work", l.name, token)
	}
	return ok
}

// await reads the journal until it has such a record; the newest of them is returned.
func (l *lane) await(wanted func(Record) bool) (Record, bool) {
	for limit := time.Now().Add(maxWait); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if err := l.read(); err != nil {
			l.t.Error(err)
			return Record{}, false
		}
		for _, r := range slices.Backward(l.begun) {
			if wanted(r) {
				return r, true
			}
		}
	}
	return Record{}, false
}

// read reads what was added to the journal.
func (l *lane) read() error {
	f, err := os.Open(filepath.Join(l.dir, "journal"))
	if err != nil {
		return err
	}
	defer f.Close()
	more, err := io.ReadAll(io.NewSectionReader(f, l.seen, 1<<30))
	whole := strings.LastIndexByte(string(more), '\n') + 1
	records, rerr := ReadJournal(strings.NewReader(string(more[:whole])))
	l.seen += int64(whole)
	l.begun = append(l.begun, records...)
	return errors.Join(err, rerr)
}

// report ends all processes, and proves what they wrote.
func (l *lane) report() {
	r := l.end()
	for _, v := range r.Violations {
		l.t.Errorf("lane %s: %s", l.name, v)
	}
	for _, e := range r.Excused {
		l.t.Logf("lane %s: forgiven: %s", l.name, e)
	}
	if l.t.Failed() {
		b, _ := os.ReadFile(l.log.Name())
		l.t.Logf("lane %s logged at last:\n%s", l.name, lastLines(string(b), 40))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms += r.Terms
	l.kept += r.Kept
}

func (l *lane) end() (r Report) {
	for _, c := range l.cands {
		_ = c.cmd.Process.Kill()
		<-c.gone
	}
	l.discard()
	_, _ = l.hold.Close(), l.alive.Close()
	_, _ = l.log.Close(), l.nodes.Close()
	if err := l.read(); err != nil {
		l.t.Error(err)
	}
	all, err := withSpans(l.dir, l.begun)
	if err != nil {
		l.t.Error(err)
		return r
	}
	p := Promise{}
	if !l.long() { // a helper that has to wait for a processor ends its command late, see checkOverlaps
		p.Lease = l.lease
		l.mu.Lock()
		all = append(all, l.late...)
		l.mu.Unlock()
	}
	return checkTerms(all, p)
}
