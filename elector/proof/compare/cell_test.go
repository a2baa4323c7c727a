package compare

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// cell is one system that meets one fault.
type cell struct {
	t       *testing.T
	system  System
	servers []server
	places  []*atomic.Pointer[string] // the address of each server, or of another that has taken its place
	members []*member
	began   time.Time

	mu     sync.Mutex
	writes []write // as they arrive
}

// member is a candidate: its process with all that it starts, and its network.
type member struct {
	network
	dir      string
	cmd      *exec.Cmd
	stdin    io.Closer
	working  int // the process of the work
	renewing int // the process that renews the lease
}

// result is what a cell measures.
type result struct {
	none, two         time.Duration // how long nobody led in the 4 leases after the fault, and how long two did
	vacant            bool          // nobody led in the last of these leases
	accepted, refused int           // by a fence
	worthless         bool          // the machine was too busy
}

func (c *cell) meet(f fault) (r result) {
	for range c.system.Nodes {
		s, place := c.system.Store(c.t), &atomic.Pointer[string]{}
		place.Store(new(s.Addr()))
		c.servers, c.places = append(c.servers, s), append(c.places, place)
	}
	c.began = time.Now()
	for range 3 {
		c.start()
	}
	leader := c.steady()
	if leader != nil && f.before != nil {
		f.before(c, leader)
		leader = c.steady()
	}
	if leader == nil {
		return result{worthless: true}
	}
	fault := time.Since(c.began)
	f.do(c, leader)
	time.Sleep(time.Until(c.began.Add(fault + 4*lease)))
	writes := c.soFar()
	slices.SortStableFunc(writes, func(a, b write) int { return cmp.Compare(a.at, b.at) })
	all, disturbed := spans(writes)
	r.none, r.two = 4*lease-covered(all, fault, fault+4*lease), covered(overlaps(all), -time.Hour, time.Hour)
	r.vacant, r.worthless = covered(all, fault+3*lease, fault+4*lease) == 0, disturbed
	r.accepted, r.refused = fenced(writes)
	return r
}

// steady waits for a leader, and then for one to two leases, so that the fault hits any moment between renewals.
func (c *cell) steady() *member {
	for deadline := time.Now().Add(10 * lease); len(c.soFar()) == 0 && time.Now().Before(deadline); {
		time.Sleep(writeEvery)
	}
	sleep(1 + rand.Float64())
	writes := c.soFar()
	if len(writes) == 0 || time.Since(c.began)-writes[len(writes)-1].at > late {
		return nil
	}
	last := writes[len(writes)-1]
	m := c.members[last.who]
	if m.working = last.pid; !c.system.Renews {
		m.renewing = last.pid
	}
	return m
}

func (c *cell) soFar() []write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

func (c *cell) start() {
	spec := Candidate{System: c.system.Name, ID: strconv.Itoa(len(c.members))}
	m := &member{dir: c.t.TempDir()}
	for _, place := range c.places {
		spec.Addrs = append(spec.Addrs, m.listen(c.t, place))
	}
	args := []string{must(os.Executable())}
	if c.system.Command != nil {
		args = slices.Concat([]string{*mandate}, c.system.Command, args)
	}
	m.cmd = exec.Command(args[0], args[1:]...)
	m.cmd.Dir = m.dir
	m.cmd.Env = append(os.Environ(), envCandidate+"="+string(must(json.Marshal(spec))), "MANDATE_REDIS="+strings.Join(spec.Addrs, ","))
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout := must(m.cmd.StdoutPipe())
	m.stdin = must(m.cmd.StdinPipe()) // when it ends, so does the candidate: the harness has
	check(m.cmd.Start())
	m.renewing = m.cmd.Process.Pid
	c.t.Cleanup(m.end)
	go c.read(len(c.members), stdout)
	c.members = append(c.members, m)
}

// end leaves no process behind, also none that is suspended.
func (m *member) end() {
	send(syscall.SIGKILL, processes(m.dir)...)
	_ = m.stdin.Close()
	_ = m.cmd.Wait()
}

func (c *cell) read(who int, from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		w := write{who: who}
		var at int64
		if n, _ := fmt.Sscan(lines.Text(), &at, &w.pid, &w.term, &w.token); n == 4 {
			w.at = time.Unix(0, at).Sub(c.began)
			c.mu.Lock()
			c.writes = append(c.writes, w)
			c.mu.Unlock()
		}
	}
}

// processes returns those that run in a folder, orphans too.
func processes(dir string) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, name := range folders {
		if at, _ := os.Readlink(name); at == dir {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

func send(sig syscall.Signal, pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// write is one stamp of a leader.
type write struct {
	at    time.Duration // since the cell began
	who   int           // which candidate
	pid   int
	term  string
	token uint64
}

// span is a time in which one candidate wrote without a pause: by its own word it led.
type span struct {
	from, to time.Duration
	who      int
}

// A writer that pauses for up to asleep was not suspended: the machine was busy. Beyond late the cell is worthless.
const late, asleep = 250 * time.Millisecond, 600 * time.Millisecond

// spans joins writes, in the order of time, and reports whether the machine disturbed them.
func spans(writes []write) (all []span, disturbed bool) {
	latest := map[string]int{}
	for _, w := range writes {
		i, ok := latest[w.term]
		if !ok || w.at-all[i].to > asleep {
			latest[w.term] = len(all)
			all = append(all, span{from: w.at, to: w.at, who: w.who})
			continue
		}
		disturbed = disturbed || w.at-all[i].to > late
		all[i].to = w.at
	}
	return all, disturbed
}

// overlaps returns when two candidates led at once. A single write within another's term lasts until the next one.
func overlaps(all []span) (both []span) {
	for i, a := range all {
		for _, b := range all[i+1:] {
			from, to := max(a.from, b.from), min(a.to, b.to)
			if a.who != b.who && from <= to {
				both = append(both, span{from: from, to: max(to, from+writeEvery)})
			}
		}
	}
	return both
}

// covered returns how much of the time from one moment to another the spans cover.
func covered(all []span, from, to time.Duration) (sum time.Duration) {
	all = slices.SortedFunc(slices.Values(all), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range all {
		if end := min(s.to, to); end > from {
			sum += end - max(s.from, from)
			from = end
		}
	}
	return sum
}

// fenced counts what a resource that refuses tokens below the largest it has seen does wrong: writes of a superseded
// leader that it accepts, as all of a system without tokens, and of the newest that it refuses.
func fenced(writes []write) (accepted, refused int) {
	seen := map[string]bool{}
	newest, largest := "", uint64(0)
	for _, w := range writes {
		if !seen[w.term] {
			seen[w.term], newest = true, w.term
		}
		switch passes := w.token >= largest; {
		case passes && w.term != newest:
			accepted++
		case !passes && w.term == newest:
			refused++
		}
		largest = max(largest, w.token)
	}
	return accepted, refused
}
