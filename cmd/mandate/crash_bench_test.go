//go:build linux

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// embedder is a program that embeds electors, one for each of so many elections. It notes when it leads
// which: "<who> <nanoseconds>".
func embedder() int {
	who := os.Args[1]
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return 1
	}
	q, err := elector.Open(strings.Split(os.Getenv("MANDATE_REDIS"), ",")...)
	if err != nil {
		return 1
	}
	f, err := os.OpenFile("beats", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	var all sync.WaitGroup
	for i := range n {
		e, err := elector.New(q, elector.Config{Election: fmt.Sprintf("e%d", i), ID: who, Lease: crashLease, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return 1
		}
		all.Go(func() {
			_ = e.Run(context.Background(), func(ctx context.Context, _ *elector.Term) error {
				_, _ = fmt.Fprintln(f, who, time.Now().UnixNano())
				<-ctx.Done()
				return nil
			})
		})
	}
	all.Wait()
	return 1
}

// beat waits for that one of a process's beats, and returns when it was.
func (c *crash) beat(who string, number int) (at time.Time) {
	c.t.Helper()
	c.until(func() error {
		all := c.beats(who)[who]
		if len(all) < number {
			return fmt.Errorf("%s has %d beats, want %d", who, len(all), number)
		}
		at = all[number-1]
		return nil
	})
	return at
}

// elected is when a candidate was, by its own clock.
func (c *crash) elected(who string) (at time.Time) {
	c.t.Helper()
	c.until(func() error {
		terms, err := c.election.History(context.Background(), 1)
		if err == nil && (len(terms) == 0 || terms[0].Candidate != who || terms[0].From.IsZero()) {
			err = fmt.Errorf("history is %+v, want the begin of a term of %s", terms, who)
		}
		if err == nil {
			at = terms[0].From
		}
		return err
	})
	return at
}

// contender is a process that leads, or follows.
type contender struct {
	id  string
	cmd *running
}

// crashKind is how a leader of a benchmark works, and is killed.
type crashKind struct {
	name      string
	elections int // of a program that embeds so many; 0: a mandate run
	victim    func(c *crash, leader contender) (pid int)
}

var crashKinds = []crashKind{
	{name: "run", victim: func(_ *crash, l contender) int { return l.cmd.Process.Pid }},
	{name: "command", victim: func(c *crash, l contender) int {
		helpers := helpersOf(l.cmd.Process.Pid)
		if len(helpers) != 1 {
			c.t.Fatalf("helpers %v", helpers)
		}
		return childOf(c.t, helpers[0], "beater\x00")
	}},
	{name: "worker", elections: 1, victim: victimOfSupervise},
	{name: "worker-of-100", elections: 100, victim: victimOfSupervise},
}

func victimOfSupervise(c *crash, l contender) int {
	return childOf(c.t, l.cmd.Process.Pid, "embedder\x00")
}

// begin starts a process that follows.
func (k crashKind) begin(c *crash, id string) contender {
	if k.elections > 0 {
		return contender{id, c.start("--log-level", "error", "supervise", "--", "embedder", id, strconv.Itoa(k.elections))}
	}
	return contender{id, c.start("--log-level", "error", "run", "--election", "e", "--id", id, "--lease", crashLease.String(), "--", "beater", id)}
}

// BenchmarkCrash is how long after a kill -9 of the leading process another one leads, and works, with a lease
// that is far longer: a mandate run, its command, and a program below mandate supervise, of one election
// and of a hundred. The processes are real, and so is Redis.
func BenchmarkCrash(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, kind := range crashKinds {
			b.Run(fmt.Sprintf("nodes=%d/killed=%s", nodes, kind.name), func(b *testing.B) { benchmarkCrash(b, nodes, kind) })
		}
	}
}

func benchmarkCrash(b *testing.B, nodes int, kind crashKind) {
	c := newCrash(b, nodes)
	next := 0
	begin := func() contender {
		next++
		return kind.begin(c, fmt.Sprintf("m%d", next))
	}
	leader := begin()
	c.beat(leader.id, max(kind.elections, 1))
	var leads, works []time.Duration
	for b.Loop() {
		follower := begin()
		time.Sleep(500 * time.Millisecond) // it has subscribed, and follows
		victim := kind.victim(c, leader)
		killed := time.Now()
		_ = syscall.Kill(victim, syscall.SIGKILL)
		worked := c.beat(follower.id, max(kind.elections, 1))
		works = append(works, worked.Sub(killed))
		if kind.elections > 0 {
			leads = append(leads, worked.Sub(killed))
		} else {
			leads = append(leads, c.elected(follower.id).Sub(killed))
		}
		_ = leader.cmd.Process.Kill() // a mandate run whose command was killed follows again
		leader = follower
	}
	_ = syscall.Kill(kind.victim(c, leader), syscall.SIGKILL) // a worker outlives its supervisor
	b.ReportMetric(0, "ns/op")
	report := func(what string, all []time.Duration) {
		slices.Sort(all)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
		b.ReportMetric(ms(all[len(all)/2]), what+"-median-ms")
		b.ReportMetric(ms(all[len(all)*99/100]), what+"-p99-ms")
	}
	report("leads", leads)
	if kind.elections == 0 {
		report("works", works)
	}
}
