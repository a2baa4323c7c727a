//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// member is one that is started again and again.
type member struct {
	id     string
	shards int
	cmd    *exec.Cmd // nil: it does not run
	gone   chan struct{}
}

// groupStage are real servers, and processes that are members of one group. All of it belongs
// to the test's goroutine.
type groupStage struct {
	t       *testing.T
	spawn   func(func() error) error
	journal string
	nodes   []*servertest.Server
	members []*member
	reader  *elector.Quorum
	rnd     *rand.Rand
}

func newGroupStage(t *testing.T, members, shards int, seed uint64) *groupStage {
	g := &groupStage{t: t, spawn: newSpawner(t), journal: filepath.Join(t.TempDir(), "journal"), nodes: servertest.RedisN(t, 3, servertest.AOF...), rnd: rand.New(rand.NewPCG(seed, 3))}
	var err error
	if g.reader, err = elector.Open(g.urls()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.reader.Close() })
	for i := range members {
		m := &member{id: fmt.Sprint("member-", i), shards: shards}
		g.members = append(g.members, m)
		t.Cleanup(func() { g.end(m, syscall.SIGKILL) })
		g.start(m)
	}
	return g
}

func (g *groupStage) urls() (all []string) {
	for _, n := range g.nodes {
		all = append(all, n.URL())
	}
	return all
}

func (g *groupStage) start(m *member) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=member", journalEnv+"="+g.journal, idEnv+"="+m.id, redisEnv+"="+strings.Join(g.urls(), ","),
		shardsEnv+"="+strconv.Itoa(m.shards))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(g.journal+"."+m.id, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := g.spawn(cmd.Start); err != nil {
		g.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = cmd.Wait(); close(gone) }()
	m.cmd, m.gone = cmd, gone
}

// end ends a member's process, also one that is stopped.
func (g *groupStage) end(m *member, by syscall.Signal) {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(by)
	_ = m.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-m.gone:
	case <-time.After(20 * lease):
		g.t.Errorf("%s does not end by %v", m.id, by)
		_ = m.cmd.Process.Kill()
		<-m.gone
	}
	m.cmd = nil
}

func (g *groupStage) pause(least, most time.Duration) {
	time.Sleep(least + time.Duration(g.rnd.Int64N(int64(most-least))))
}

// play breaks one thing after another, at most one node at a time, and mends it.
func (g *groupStage) play(lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); g.pause(0, lease) {
		m, n := g.members[g.rnd.IntN(len(g.members))], g.nodes[g.rnd.IntN(len(g.nodes))]
		switch g.rnd.IntN(5) {
		case 0:
			g.end(m, syscall.SIGKILL)
			g.pause(0, 2*lease)
			g.start(m)
		case 1:
			g.end(m, syscall.SIGTERM)
			g.start(m)
		case 2: // shorter and longer than its leases last
			_ = m.cmd.Process.Signal(syscall.SIGSTOP)
			g.pause(lease/4, 5*lease/2)
			_ = m.cmd.Process.Signal(syscall.SIGCONT)
		case 3:
			n.Kill()
			g.pause(0, lease)
			n.Restart(g.t)
		case 4:
			n.Hang(g.t)
			g.pause(lease/4, 2*lease)
			n.Wake(g.t)
		}
	}
}

// even waits until all shards are owned, evenly, by all members.
func (g *groupStage) even(shards int, within time.Duration) {
	g.t.Helper()
	var st shard.Status
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		st, err = shard.Read(context.Background(), g.reader, groupName)
		if err != nil || st.Shards != shards || len(st.Unowned) > 0 || len(st.Members) != len(g.members) {
			continue
		}
		least, most := shards, 0
		for _, m := range st.Members {
			least, most = min(least, len(m.Owned)), max(most, len(m.Owned))
		}
		if most-least <= 1 {
			return
		}
	}
	g.t.Errorf("not evenly owned as %d shards after %v: %+v, %v", shards, within, st, err)
}

// TestChaosGroup kills and stops the members of a group, and restarts and hangs nodes. No key ever
// has two owners, and in the end all are owned evenly. CHAOSTIME and CHAOSSEED are those of TestChaos.
func TestChaosGroup(t *testing.T) {
	lasts, seed := chaosTime(t), chaosSeed(t)
	t.Logf("seed %d: make chaos CHAOSTIME=%v CHAOSSEED=%d", seed, lasts, seed)
	g := newGroupStage(t, 4, slots, seed)
	g.even(slots, 30*lease)
	g.play(lasts)
	g.even(slots, 30*lease)
	for _, m := range g.members {
		g.end(m, syscall.SIGTERM)
	}

	f, err := os.Open(g.journal)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := readOwnerships(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range checkOwnerships(all) {
		t.Error(v)
	}
	terms := map[string]bool{}
	for _, o := range all {
		terms[fmt.Sprint(o.shard, o.shards, o.token)] = true
	}
	t.Logf("%d terms of shards, seen %d times", len(terms), len(all))
	if len(terms) < 3*slots/2 {
		t.Errorf("only %d terms: that proves little", len(terms))
	}
	if t.Failed() {
		for _, m := range g.members {
			b, _ := os.ReadFile(g.journal + "." + m.id)
			t.Logf("%s logged:\n%s", m.id, b[max(0, len(b)-4000):])
		}
	}
}

// The check finds what it is for.
func TestChaosGroupCheck(t *testing.T) {
	const journal = `100 110 3 12 7 1
105 115 4 12 7 2
200 210 3 24 8 2
205 215 15 24 9 3
%s`
	for line, want := range map[string]int{
		"300 310 3 24 8 2":   0,
		"195 208 3 12 7 1":   0, // it may have been before
		"211 220 3 12 7 1":   1, // of slot 3
		"216 220 3 12 7 1":   2, // of 15, too
		"211 220 3 24 8 9":   1, // one term in two processes
		"216 220 15 24 10 9": 0,
	} {
		all, err := readOwnerships(strings.NewReader(fmt.Sprintf(journal, line)))
		if err != nil {
			t.Fatal(err)
		}
		if got := checkOwnerships(all); len(got) != want {
			t.Errorf("%s: %q, want %d violations", line, got, want)
		}
	}
}
