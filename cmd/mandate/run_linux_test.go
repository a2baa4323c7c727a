//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/shard"
)

// shardBeats is the command of a shard: it, and a process that has left its session and ignores
// SIGTERM, note in the journal that they work, with the token first.
const shardBeats = `exec 2>/dev/null
export BEAT='while [ -e journal ]; do
	[ -e "fail-$MANDATE_ID-$MANDATE_SHARD" ] && exit 3
	echo "$MANDATE_TOKEN $MANDATE_ID $$ $MANDATE_SHARD" >>journal; sleep 0.05
done'
setsid sh -c "trap '' TERM; $BEAT" &
sh -c "$BEAT"`

// A busy machine has a tenth of groupLease to kill the commands of a member that is suspended.
const groupLease = 10 * time.Second

// members are `mandate run --group` processes.
type members struct {
	t     *testing.T
	dir   string
	group string
	q     *elector.Quorum
	url   string
	procs map[string]*running
}

func newMembers(t *testing.T) *members {
	t.Helper()
	redis := servertest.Redis(t)
	m := &members{
		t: t, dir: t.TempDir(), group: fmt.Sprintf("group-%d-%d", os.Getpid(), time.Now().UnixNano()), q: openQuorum(t, redis.URL()), url: redis.URL(),
		procs: map[string]*running{},
	}
	must(t, os.WriteFile(filepath.Join(m.dir, "journal"), nil, 0o600))
	t.Cleanup(func() {
		for id, cmd := range m.procs {
			cmd.kill()
			if log, _ := os.ReadFile(filepath.Join(m.dir, id+".log")); t.Failed() {
				t.Logf("%s logged:\n%s", id, log)
			}
		}
		for _, pid := range marked("MANDATE_GROUP=" + m.group) { // of a test that has failed
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return m
}

func (m *members) start(id string, args ...string) {
	m.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(m.t, err)
	defer log.Close()
	args = append([]string{"run", "--group", m.group, "--id", id, "--lease", groupLease.String(), "--grace", "300ms"}, args...)
	m.procs[id] = startMandate(m.t, m.dir, m.url, log, nil, append(args, "--", "sh", "-c", shardBeats)...)
}

// beats are the newest token and owner of each shard that have worked since a number of bytes
// of the journal, and how long that is now.
func (m *members) beats(since int) (newest map[int]shardBeat, length int) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "journal"))
	must(m.t, err)
	newest = map[int]shardBeat{}
	for line := range strings.Lines(string(text[since:])) {
		var b shardBeat
		var pid, s int
		if n, _ := fmt.Sscanf(line, "%d %s %d %d\n", &b.token, &b.id, &pid, &s); n == 4 && b.token >= newest[s].token {
			newest[s] = b
		}
	}
	return newest, len(text)
}

type shardBeat struct {
	token uint64
	id    string
}

// owning waits until the members own so many shards each, and their commands work.
func (m *members) owning(within time.Duration, want map[string]int) (after time.Duration) {
	m.t.Helper()
	began := time.Now()
	_, since := m.beats(0)
	for limit, last := began.Add(within), began; ; time.Sleep(pollEvery) {
		now := time.Now()
		limit = limit.Add(max(0, now.Sub(last)-20*pollEvery)) // what a busy machine takes from this process, it takes from all
		last = now
		counts, sum := map[string]int{}, 0
		beats, _ := m.beats(since)
		for _, b := range beats {
			counts[b.id]++
		}
		ctx, cancel := context.WithTimeout(m.t.Context(), scriptTimeout)
		st, err := shard.Read(ctx, m.q, m.group)
		cancel()
		fits := err == nil && len(st.Unowned) == 0 && len(st.Members) == len(want)
		for _, one := range st.Members {
			fits = fits && len(one.Owned) == want[one.ID] && counts[one.ID] == want[one.ID]
			sum += counts[one.ID]
		}
		if fits && sum == st.Shards {
			return time.Since(began)
		}
		if now.After(limit) {
			m.t.Fatalf("not within %v that the members own %v: they own %v, and work at %v (%v)", within, want, st.Members, counts, err)
		}
	}
}

// alone fails the test if two processes of one shard's terms have worked at one time: the kernel has put the lines of the
// journal in order, and when a term's process has written, none of an earlier term may.
func (m *members) alone() {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "journal"))
	must(m.t, err)
	newest := map[int]uint64{}
	for line := range strings.Lines(string(text)) {
		var token uint64
		var id string
		var pid, s int
		if n, err := fmt.Sscanf(line, "%d %s %d %d\n", &token, &id, &pid, &s); n != 4 {
			m.t.Fatalf("no line of ours: %q, %v", line, err)
		}
		if token < newest[s] {
			m.t.Fatalf("shard %d: %s (%d) of term %d works beside term %d", s, id, pid, token, newest[s])
		}
		newest[s] = token
	}
}

// Two mandates share the shards evenly. A command that fails costs its shard alone, which the
// other one takes. One that is killed leaves no process, and the other one owns all after the
// lease. At the end nothing is left, and no two processes ever worked at one shard.
func TestRunGroupReal(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.start("a", "--shards", "8", "--cooldown", "5m")
	m.start("b", "--shards", "8", "--cooldown", "5m")
	m.owning(scriptTimeout, map[string]int{"a": 4, "b": 4})

	before, _ := m.beats(0)
	failing := 0
	for s, b := range before {
		if b.id == "a" {
			failing = s
		}
	}
	must(t, os.WriteFile(filepath.Join(m.dir, "fail-a-"+strconv.Itoa(failing)), nil, 0o600))
	servertest.Eventually(t, scriptTimeout, "b has the shard that fails at a", func() bool {
		now, _ := m.beats(0)
		return now[failing].id == "b"
	})
	m.owning(scriptTimeout, map[string]int{"a": 4, "b": 4})
	now, _ := m.beats(0)
	for s, b := range before {
		if b.id == "a" && s != failing && now[s] != b {
			t.Errorf("shard %d was a's with token %d, and is %s's with %d although only shard %d failed", s, b.token, now[s].id, now[s].token, failing)
		}
	}

	must(t, m.procs["a"].Process.Kill())
	// The allowance is for the start of four commands and for reading Redis; the time is logged.
	took := m.owning(groupLease+500*time.Millisecond+10*time.Second, map[string]int{"b": 8})
	t.Logf("b owned all %v after a was killed; the lease is %v", took, groupLease)
	if left := marked("MANDATE_GROUP="+m.group, "MANDATE_ID=a"); len(left) > 0 {
		t.Errorf("processes of the member that was killed live: %v", left)
	}

	must(t, m.procs["b"].Process.Signal(syscall.SIGTERM))
	m.procs["b"].ends(t, scriptTimeout, 0)
	if left := marked("MANDATE_GROUP=" + m.group); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	m.alone()
}

// A member that is stopped hands its shards over; another number of shards is refused; and a
// member that is suspended has its commands killed before the others run them.
func TestRunGroupEndsReal(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.start("a", "--shards", "4")
	m.owning(scriptTimeout, map[string]int{"a": 4})
	m.start("odd", "--shards", "5")
	m.procs["odd"].ends(t, scriptTimeout, exitFailed)
	if log, _ := os.ReadFile(filepath.Join(m.dir, "odd.log")); !strings.Contains(string(log), "all members need the same") {
		t.Errorf("a member with another number of shards logged\n%s", log)
	}

	m.start("b", "--shards", "4")
	m.owning(scriptTimeout, map[string]int{"a": 2, "b": 2})
	must(t, m.procs["a"].Process.Signal(syscall.SIGTERM))
	m.procs["a"].ends(t, scriptTimeout, 0)
	m.owning(scriptTimeout, map[string]int{"b": 4})

	m.start("c", "--shards", "4")
	m.owning(scriptTimeout, map[string]int{"b": 2, "c": 2})
	must(t, m.procs["b"].Process.Signal(syscall.SIGSTOP))
	m.owning(scriptTimeout, map[string]int{"c": 4})
	if left := marked("MANDATE_GROUP="+m.group, "MANDATE_ID=b"); len(left) > 0 {
		t.Errorf("processes of the member that is suspended live: %v", left)
	}
	must(t, m.procs["b"].Process.Signal(syscall.SIGCONT))
	m.owning(scriptTimeout, map[string]int{"b": 2, "c": 2})
	m.alone()
}
