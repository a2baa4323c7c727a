//go:build linux

package main

import (
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

	"github.com/mandate-dev/mandate/internal/servertest"
)

// beats is a command whose processes get out of its group in every way, ignore SIGTERM,
// and note in the journal that they work, with their term's token.
const beats = `exec 2>/dev/null
export BEAT='trap "" TERM HUP INT PIPE; while :; do echo "$MANDATE_TOKEN $0 $$" >>journal; sleep 0.05; done'
timeout 1000 sh -c "$BEAT" timeout &
setsid sh -c "$BEAT" setsid &
(setsid sh -c 'sh -c "$BEAT" daemon & exit' & exit)
bash -c 'set -m; sh -c "$BEAT" set-m & exit'
[ $(($$ % 3)) = 0 ] && sleep 1 && exit 1
exec sh -c "$BEAT" command`

// rival is a `mandate run` that is started again whenever it has ended.
type rival struct {
	t        *testing.T
	dir      string
	id       string
	election string
	url      string
	rng      *rand.Rand
	cmd      *exec.Cmd
	done     chan struct{}
	unread   []*os.File // the other ends of its logs

	stopped time.Time // until then
}

// start starts it, with a log that is read (a file), without a reader, or whose
// reader has gone.
func (r *rival) start() (log string) {
	r.t.Helper()
	r.cmd = exec.Command("mandate", "run", "--election", r.election, "--id", r.id, "--lease", "4s", "--grace", "100ms", "--restart-delay", "10ms",
		"--log-level", "debug", "--", "sh", "-c", beats)
	r.cmd.Dir = r.dir
	r.cmd.Env = append(os.Environ(), "MANDATE_REDIS="+r.url, "GORACE="+noExitPause)
	var w *os.File
	var err error
	switch log = []string{"read", "hung", "closed"}[r.rng.IntN(3)]; log {
	case "read":
		w, err = os.OpenFile(filepath.Join(r.dir, r.id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	default:
		var read *os.File
		if read, w, err = os.Pipe(); err == nil && log == "closed" {
			read.Close()
		} else {
			r.unread = append(r.unread, read)
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer w.Close()
	r.cmd.Stderr = w
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	done, cmd := make(chan struct{}), r.cmd
	r.done = done
	go func() { _ = cmd.Wait(); close(done) }()
	return log
}

func (r *rival) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *rival) signal(sig syscall.Signal) { _ = r.cmd.Process.Signal(sig) }

// disturb does one thing to it. Mandate and its helper are never out at once: that is
// the documented exception.
func (r *rival) disturb(kind string) {
	pid := r.cmd.Process.Pid
	switch kind {
	case "shutdown":
		r.signal(syscall.SIGTERM)
	case "kill":
		r.signal(syscall.SIGKILL)
	case "stop":
		r.signal(syscall.SIGSTOP)
		r.stopped = time.Now().Add(time.Duration(500+r.rng.IntN(7000)) * time.Millisecond)
		process := r.cmd.Process
		time.AfterFunc(time.Until(r.stopped), func() { _ = process.Signal(syscall.SIGCONT) })
	case "kill helper":
		if time.Now().Before(r.stopped) {
			r.signal(syscall.SIGCONT)
		}
		was := helpersOf(pid)
		if len(was) == 0 { // it does not lead, and may begin to: what is below its helper then is no rest
			return
		}
		for _, helper := range was {
			syscall.Kill(helper, syscall.SIGKILL)
		}
		if err := poll(func() error { // until mandate has killed the rest
			if now := helpersOf(pid); len(now) > 0 && now[0] != was[0] {
				return nil
			}
			if left := marked("MANDATE_ELECTION="+r.election, "MANDATE_ID="+r.id); len(left) > 0 {
				return fmt.Errorf("mandate (ended: %t), whose helper %v was killed, leaves %v to themselves", r.ended(), was, left)
			}
			return nil
		}); err != nil {
			r.t.Error(err)
		}
	case "kill command":
		for _, helper := range helpersOf(pid) {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", helper, helper))
			for _, child := range strings.Fields(string(children)) {
				if n, _ := strconv.Atoi(child); n > 1 {
					syscall.Kill(n, syscall.SIGKILL)
				}
			}
		}
	}
}

// TestChaosRun disturbs three `mandate run` with commands that get out of their process
// group, and proves by one journal that no two terms' processes work at once.
// CHAOSTIME and CHAOSSEED as in elector/proof/internal/chaos.
func TestChaosRun(t *testing.T) {
	servertest.NeedRedis(t)
	length, seed := 20*time.Second, uint64(time.Now().UnixNano())
	if d, err := time.ParseDuration(os.Getenv("CHAOSTIME")); err == nil {
		length = d
	}
	if n, err := strconv.ParseUint(os.Getenv("CHAOSSEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("CHAOSSEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	redis, dir := servertest.Redis(t), t.TempDir()
	election := fmt.Sprintf("chaosrun-%d-%d", os.Getpid(), seed)
	t.Cleanup(func() { // when it failed, what is left must not beat for ever
		for _, pid := range marked("MANDATE_ELECTION=" + election) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	var rivals []*rival
	counts := map[string]int{}
	for i := range 3 {
		r := &rival{t: t, dir: dir, id: string(rune('a' + i)), election: election, url: redis.URL(), rng: rng}
		counts["log "+r.start()]++
		rivals = append(rivals, r)
		t.Cleanup(func() {
			r.signal(syscall.SIGKILL)
			<-r.done
			for _, f := range r.unread {
				f.Close()
			}
		})
	}
	kinds := []string{"shutdown", "kill", "kill", "stop", "stop", "kill helper", "kill command"}
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(100+rng.IntN(500)) * time.Millisecond) {
		r := rivals[rng.IntN(len(rivals))]
		for _, other := range rivals { // the leader, mostly: the others have little to disturb
			if rng.IntN(3) > 0 && len(helpersOf(other.cmd.Process.Pid)) > 0 {
				r = other
			}
		}
		if r.ended() {
			counts["log "+r.start()]++
			continue
		}
		kind := kinds[rng.IntN(len(kinds))]
		counts[kind]++
		r.disturb(kind)
	}
	for _, r := range rivals {
		r.signal(syscall.SIGTERM)
		r.signal(syscall.SIGCONT)
		select {
		case <-r.done:
		case <-time.After(scriptTimeout):
			t.Errorf("%s does not end", r.id)
		}
	}
	if err := poll(func() error { // killed ones may have left their helpers at it
		if left := marked("MANDATE_ELECTION=" + election); len(left) > 0 {
			return fmt.Errorf("left behind: %v", left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	journal, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	terms, problems := oneAtATime(string(journal))
	for _, p := range problems {
		t.Error(p)
	}
	t.Logf("%d terms, %d beats; %v", terms, strings.Count(string(journal), "\n"), counts)
	if terms < 2 {
		t.Errorf("%d terms: nothing was tried", terms)
	}
}

// oneAtATime reads a journal, whose lines the kernel has put in order: when a term's
// process has written, none of an earlier term of the same shard may. The shard is the last
// word of a line; of an election there is none.
func oneAtATime(journal string) (terms int, problems []string) {
	newests := map[string]uint64{}
	late := map[string]int{}
	for line := range strings.Lines(journal) {
		f := strings.Fields(line)
		shard := ""
		if len(f) == 4 {
			shard, f = f[3], f[:3]
		}
		newest := newests[shard]
		if len(f) != 3 {
			problems = append(problems, fmt.Sprintf("no line of ours: %q", line))
			continue
		}
		token, err := strconv.ParseUint(f[0], 10, 64)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("no token: %q", line))
		case token > newest:
			newests[shard] = token
			terms++
		case token < newest:
			who := strings.TrimSpace(fmt.Sprintf("%s (%s) of term %s %s", f[1], f[2], f[0], shard))
			if late[who]++; late[who] == 1 {
				problems = append(problems, fmt.Sprintf("%s works beside term %d", who, newest))
			}
		}
	}
	return terms, problems
}

// The checker can fail.
func TestOneAtATime(t *testing.T) {
	for journal, want := range map[string]int{
		"1 a 10\n1 b 11\n2 a 12\n2 a 12\n":         0,
		"1 a 10\n2 a 12\n1 b 11\n2 a 12\n":         1,
		"1 a 10\n2 a 12\n1 b 11\n1 b 11\n1 a 1\n":  2,
		"1 a 10 7\n2 b 11 8\n1 a 10 7\n2 c 12 7\n": 0,
		"1 a 10 7\n2 b 11 7\n1 a 10 7\n":           1,
		"1 a\n":                                    1,
		"x a 1\n":                                  1,
	} {
		if terms, problems := oneAtATime(journal); len(problems) != want {
			t.Errorf("%q: %d terms, %q", journal, terms, problems)
		}
	}
}
