package elector_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/internal/servertest"
)

// longEnv lets the benchmarks run that take minutes.
const longEnv = "MANDATE_BENCH_LONG"

// BenchmarkMany: what many elections in one process cost. One process leads all, another
// one follows all; each measures itself, so that the benchmark's own work does not count.
func BenchmarkMany(b *testing.B) {
	for _, of := range []struct {
		elections int
		lease     time.Duration
	}{{1000, 3 * time.Second}, {10_000, 10 * time.Second}} {
		if of.elections > 1000 && os.Getenv(longEnv) == "" {
			continue // some minutes
		}
		for _, nodes := range []int{1, 3} {
			b.Run(fmt.Sprintf("elections=%d/nodes=%d", of.elections, nodes), func(b *testing.B) {
				for b.Loop() {
					benchMany(b, nodes, of.elections, of.lease)
				}
			})
		}
	}
}

func benchMany(b *testing.B, nodes, elections int, lease time.Duration) {
	servers := benchServers(b, nodes)
	leader := startMany(b, servers, "alone-a", 1, lease)
	leader.awaitAll(b, 2*lease)
	follower := startMany(b, servers, "alone-b", 1, lease)
	alone := handovers(b, leader, follower)
	leader.kill()
	follower.kill()

	for _, s := range servers { // nothing of that is left
		s.Restart(b)
	}
	leader = startMany(b, servers, "a", elections, lease)
	leader.awaitAll(b, 2*lease+time.Minute)
	follower = startMany(b, servers, "b", elections, lease)
	time.Sleep(lease + lease/2) // all have claimed and wait; the connections of the start are used no more

	steady(b, servers, leader, follower, 4*lease)
	beside := handovers(b, leader, follower)
	report(b, "handover", median(beside))
	b.ReportMetric(float64(median(beside))/float64(median(alone)), "x-handover-alone")
	report(b, "max-handover", slices.Max(beside))
	if nodes > 1 {
		hungNode(b, servers[nodes-1], leader, follower, lease)
	}
	hungProbe(b, leader, follower, lease)

	began := time.Now()
	leader.do(b, "stop")
	b.ReportMetric(time.Since(began).Seconds(), "s-to-stop")
	b.ReportMetric(follower.awaitAll(b, 2*lease+time.Minute).Sub(began).Seconds(), "s-until-led-after-stop")
	storm(b, servers[0], follower, lease)

	second := startMany(b, servers, "c", elections, lease)
	time.Sleep(lease + lease/2)
	killed := time.Now()
	follower.kill()
	b.ReportMetric((second.awaitAll(b, 3*lease+time.Minute).Sub(killed) - lease).Seconds(), "s-beyond-lease-after-kill")
	second.kill()
}

// steady measures a while in which nothing happens.
func steady(b *testing.B, servers []*servertest.Server, leader, follower *manyProcess, d time.Duration) {
	b.Helper()
	before := [...]manyState{leader.do(b, "peek"), follower.do(b, "peek")}
	node, began := nodeUse(b, servers[0]), time.Now()
	time.Sleep(d)
	took, used := time.Since(began), nodeUse(b, servers[0]).since(node)
	for i, p := range []*manyProcess{leader, follower} {
		now, role := p.do(b, "peek"), [...]string{"leader", "follower"}[i]
		if now.Began != before[i].Began || now.Ended != before[i].Ended {
			b.Errorf("%s: terms have begun or ended: %+v, before %+v", role, now, before[i])
		}
		b.ReportMetric((now.CPU-before[i].CPU).Seconds()*60/took.Seconds(), role+"-cpu-s/min")
		now = p.do(b, "measure")
		b.ReportMetric(float64(now.Goroutines-p.idle.Goroutines)/float64(p.Elections), role+"-goroutines/election")
		b.ReportMetric(float64(now.Heap-p.idle.Heap)/1024/float64(p.Elections), role+"-heap-KiB/election")
		b.ReportMetric(float64(now.Stacks-p.idle.Stacks)/1024/float64(p.Elections), role+"-stack-KiB/election")
	}
	b.ReportMetric(used.scripts/took.Seconds(), "scripts/s/node")
	b.ReportMetric(used.commands/took.Seconds(), "commands/s/node")
	b.ReportMetric(100*used.cpu/took.Seconds(), "node-cpu-%")
}

// handovers are the times that the first election takes from one process to the other, there
// and back again; also those that came so late that the old leader was elected again.
func handovers(b *testing.B, from, to *manyProcess) []time.Duration {
	b.Helper()
	var all []time.Duration
	for range 30 {
		time.Sleep(manyCooldown + manyCooldown/4) // the old leader is back in the row
		if from.do(b, "peek").FirstBegan < to.do(b, "peek").FirstBegan {
			from, to = to, from
		}
		sent := from.do(b, "resign").Resigned
		var now int64
		servertest.Eventually(b, time.Minute, "the next leader of the first election", func() bool {
			now = max(from.do(b, "peek").FirstBegan, to.do(b, "peek").FirstBegan)
			return now > sent
		})
		all = append(all, time.Duration(now-sent))
	}
	return all
}

// hungNode stops a minority, which must cost no term.
func hungNode(b *testing.B, server *servertest.Server, leader, follower *manyProcess, lease time.Duration) {
	b.Helper()
	before := [...]manyState{leader.do(b, "peek"), follower.do(b, "peek")}
	server.Hang(b)
	time.Sleep(3 * lease)
	server.Wake(b)
	lost := leader.do(b, "peek").Ended + follower.do(b, "peek").Ended - before[0].Ended - before[1].Ended
	b.ReportMetric(float64(lost), "terms-lost-by-hung-node")
	time.Sleep(lease)
}

// hungProbe has the probe of one election hang, which must move that election alone.
func hungProbe(b *testing.B, leader, follower *manyProcess, lease time.Duration) {
	b.Helper()
	before := [...]manyState{leader.do(b, "peek"), follower.do(b, "peek")}
	began := time.Now()
	leader.do(b, "hang")
	servertest.Eventually(b, 4*lease+time.Minute, "the election whose probe hangs moves", func() bool {
		time.Sleep(20 * time.Millisecond)
		return follower.do(b, "peek").Leads > before[1].Leads
	})
	b.ReportMetric(time.Since(began).Seconds(), "s-until-moved-by-hung-probe")
	time.Sleep(lease)
	moved := leader.do(b, "peek").Ended + follower.do(b, "peek").Ended - before[0].Ended - before[1].Ended
	b.ReportMetric(float64(moved), "terms-moved-by-hung-probe")
}

// storm restarts a node without its data, and counts the requests to it until all lead again.
func storm(b *testing.B, server *servertest.Server, leader *manyProcess, lease time.Duration) {
	b.Helper()
	before := leader.do(b, "peek")
	restarted := time.Now()
	server.Restart(b)
	time.Sleep(lease) // a lease and 2 s are allowed
	servertest.Eventually(b, 3*lease+time.Minute, "all lead again", func() bool {
		return leader.do(b, "peek").Leads == leader.Elections
	})
	now := leader.do(b, "peek")
	if now.Ended > before.Ended {
		b.ReportMetric(time.Unix(0, now.AllSince).Sub(restarted).Seconds(), "s-until-led-after-restart")
	}
	b.ReportMetric(nodeUse(b, server).scripts/float64(leader.Elections), "scripts/election-after-restart")
}

// use is what a node has done so far.
type use struct{ scripts, commands, cpu float64 }

func (u use) since(before use) use {
	return use{u.scripts - before.scripts, u.commands - before.commands, u.cpu - before.cpu}
}

func nodeUse(b *testing.B, s *servertest.Server) use {
	b.Helper()
	c := s.Client(b)
	defer c.Close()
	info, err := c.InfoMap(b.Context(), "commandstats", "stats", "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	number := func(section, key string) float64 {
		v, _ := strconv.ParseFloat(info[section][key], 64)
		return v
	}
	return use{
		scripts: float64(evals(b, c)), commands: number("Stats", "total_commands_processed"),
		cpu: number("CPU", "used_cpu_sys") + number("CPU", "used_cpu_user"),
	}
}

// manyProcess is a process of manyMain.
type manyProcess struct {
	manySettings

	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Scanner
	idle manyState // before it began
}

func startMany(b *testing.B, servers []*servertest.Server, id string, elections int, lease time.Duration) *manyProcess {
	b.Helper()
	p := &manyProcess{manySettings: manySettings{ID: id, Elections: elections, Lease: lease}, cmd: exec.Command(os.Args[0])}
	for _, s := range servers {
		p.URLs = append(p.URLs, s.URL())
	}
	settings, err := json.Marshal(p.manySettings)
	if err != nil {
		b.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), manyEnv+"="+string(settings))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.kill)
	p.in, p.out = in, bufio.NewScanner(out)
	p.idle = p.state(b)
	p.do(b, "start")
	return p
}

func (p *manyProcess) do(b *testing.B, command string) manyState {
	b.Helper()
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		b.Fatal(err)
	}
	return p.state(b)
}

func (p *manyProcess) state(b *testing.B) (st manyState) {
	b.Helper()
	if !p.out.Scan() {
		b.Fatalf("process %s has ended: %v", p.ID, p.out.Err())
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(p.out.Text())), &st); err != nil {
		b.Fatalf("%v: %s", err, p.out.Text())
	}
	return st
}

// awaitAll waits until the process leads all, and returns since when it does.
func (p *manyProcess) awaitAll(b *testing.B, within time.Duration) time.Time {
	b.Helper()
	var st manyState
	servertest.Eventually(b, within, p.ID+" leads all", func() bool {
		time.Sleep(20 * time.Millisecond)
		st = p.do(b, "peek")
		return st.Leads == p.Elections
	})
	return time.Unix(0, st.AllSince)
}

func (p *manyProcess) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
