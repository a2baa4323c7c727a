//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// noExitPause has a program that is built with -race end at once, and not a second later:
// the guard of a command, too.
const noExitPause = "atexit_sleep_ms=0"

// workScript is the command that the scripts run: it notes what it does in the
// journal, and it notes OVERLAP when another one, or a child of another one,
// lives. The kernel frees the lock only when the last process of it is dead.
const workScript = `#!/bin/sh
if command -v flock >/dev/null; then
	exec 9>>work.lock
	flock -n 9 || echo "OVERLAP $MANDATE_ID" >>journal
fi
if [ "$1" = stubborn ]; then
	trap '' TERM
else
	trap 'echo "stop $MANDATE_ID" >>journal; exit 0' TERM
fi
sleep 1000 &
echo "start $MANDATE_ID $MANDATE_TOKEN $$ $!" >>journal
while [ -e work.sh ]; do # whatever escaped from a failed test ends with its folder
	[ -e "stall-$MANDATE_ID" ] || touch "alive-$MANDATE_ID"
	sleep 0.05
done
`

// scriptValues are the processes of one script.
type scriptValues struct {
	t          testing.TB // the script's
	port       int        // of its redis-server
	mu         sync.Mutex
	redis      *servertest.Server
	nodes      []*servertest.Server // of an incident with several
	stoppedAt  time.Time            // when Redis, or a candidate, was stopped
	candidates map[string]*running
	unhealthy  *atomic.Bool // the program beside mandate serve
}

// running is a program that was started.
type running struct {
	*exec.Cmd

	done chan struct{} // closed when it has ended
}

func begin(cmd *exec.Cmd) (*running, error) {
	r := &running{cmd, make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait(); close(r.done) }()
	return r, nil
}

func (r *running) kill() {
	_ = r.Process.Kill()
	<-r.done
}

// ends waits for its end, with this exit code.
func (r *running) ends(t interface{ Fatalf(string, ...any) }, within time.Duration, code int) {
	select {
	case <-r.done:
	case <-time.After(within):
		t.Fatalf("%q has not ended within %v", r.Args, within)
	}
	if got := r.ProcessState.ExitCode(); got != code {
		t.Fatalf("%q ended with %d (%v), want %d", r.Args, got, r.ProcessState, code)
	}
}

func setupScript(env *testscript.Env) error {
	v := &scriptValues{t: env.T().(testing.TB), candidates: map[string]*running{}}
	v.port = servertest.FreePort(v.t)
	env.Values["processes"] = v
	env.Setenv("PORT", strconv.Itoa(v.port))
	env.Setenv("MANDATE_REDIS", "redis://127.0.0.1:"+strconv.Itoa(v.port))
	env.Setenv("LEADER", "")
	env.Setenv("GORACE", noExitPause)
	docs, err := filepath.Abs(filepath.Join(root, "docs"))
	if err != nil {
		return err
	}
	env.Setenv("DOCS", docs)
	env.Setenv("ACL", filepath.Join(docs, "redis.acl"))
	env.Setenv("EXAMPLES", filepath.Join(docs, "../examples"))
	env.Defer(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, c := range v.candidates {
			c.kill() // its helper then ends the command
		}
	})
	return os.WriteFile(filepath.Join(env.WorkDir, "work.sh"), []byte(workScript), 0o700)
}

var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"redis":     cmdRedis,
	"candidate": cmdCandidate,
	"signal":    cmdSignal,
	"ended":     cmdEnded,
	"leader":    cmdLeader,
	"dead":      cmdDead,
	"until":     cmdUntil,
	"journal":   cmdJournal,
	"site":      cmdSite,
	"request":   cmdRequest,
	"port":      cmdPort,
	"notified":  cmdNotified,

	"previous":      cmdPrevious,
	"otherprotocol": cmdOtherProtocol,
}

func valuesOf(ts *testscript.TestScript) *scriptValues { return ts.Value("processes").(*scriptValues) }

// redis start [ARG...] | stop | cont: the server on $PORT.
func cmdRedis(ts *testscript.TestScript, _ bool, args []string) {
	v := valuesOf(ts)
	switch args[0] {
	case "start":
		v.redis = servertest.RedisOn(v.t, v.port, args[1:]...)
	case "stop":
		v.stoppedAt = time.Now()
		v.redis.Hang(v.t)
	case "cont":
		v.redis.Wake(v.t)
	default:
		ts.Fatalf("redis %q?", args)
	}
}

// candidate NAME [ARG...]: starts `mandate run --id NAME ARG...`, or that of $PROGRAM, in the
// background, with its output in NAME.out and its logs in NAME.log.
func cmdCandidate(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	cmd := exec.Command(cmp.Or(ts.Getenv("PROGRAM"), "mandate"), append([]string{"run", "--id", name}, args[1:]...)...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "MANDATE_REDIS="+ts.Getenv("MANDATE_REDIS"), "GORACE="+noExitPause)
	for suffix, w := range map[string]*io.Writer{".out": &cmd.Stdout, ".log": &cmd.Stderr} {
		f, err := os.OpenFile(ts.MkAbs(name+suffix), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		ts.Check(err)
		defer f.Close()
		*w = f
	}
	c, err := begin(cmd)
	ts.Check(err)
	v := valuesOf(ts)
	v.mu.Lock()
	v.candidates[name] = c
	v.mu.Unlock()
}

// signal NAME SIGNAL
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig := unix.SignalNum("SIG" + args[1])
	v := valuesOf(ts)
	if sig == syscall.SIGSTOP {
		v.stoppedAt = time.Now()
	}
	ts.Check(v.candidates[args[0]].Process.Signal(sig))
}

// ended NAME CODE [WITHIN]: waits for the end of a candidate.
func cmdEnded(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[1])
	ts.Check(err)
	within := scriptTimeout
	if len(args) > 2 {
		within, err = time.ParseDuration(args[2])
		ts.Check(err)
	}
	valuesOf(ts).candidates[args[0]].ends(ts, within, code)
}

// leader N: waits until N commands have been started in all, and puts the
// newest into $LEADER, $TOKEN, $CHILD and $GRANDCHILD.
func cmdLeader(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(poll(func() error {
		starts := linesOf(ts, "start ")
		if len(starts) < n {
			return fmt.Errorf("%d commands were started, want %d", len(starts), n)
		}
		f := strings.Fields(starts[len(starts)-1])
		for i, name := range []string{"LEADER", "TOKEN", "CHILD", "GRANDCHILD"} {
			ts.Setenv(name, f[i+1])
		}
		return nil
	}))
}

func linesOf(ts *testscript.TestScript, prefix string) (found []string) {
	b, _ := os.ReadFile(ts.MkAbs("journal"))
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, prefix) && strings.HasSuffix(line, "\n") {
			found = append(found, line)
		}
	}
	return found
}

// until PROGRAM [ARG...]: runs it again and again until it succeeds.
func cmdUntil(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(poll(func() error { return ts.Exec(args[0], args[1:]...) }))
}

// journal checks what all scripts must hold: never two commands at once, and
// growing tokens.
func cmdJournal(ts *testscript.TestScript, _ bool, _ []string) {
	all := ts.ReadFile("journal")
	if strings.Contains(all, "OVERLAP") {
		ts.Fatalf("two commands ran at once:\n%s", all)
	}
	last := uint64(0)
	for _, line := range linesOf(ts, "start ") {
		token, err := strconv.ParseUint(strings.Fields(line)[2], 10, 64)
		ts.Check(err)
		if token <= last {
			ts.Fatalf("token %d after %d:\n%s", token, last, all)
		}
		last = token
	}
}

// notified PROGRAM [ARG...]: runs a program that has to notify systemd.
func cmdNotified(ts *testscript.TestScript, _ bool, args []string) {
	socket := filepath.Join(os.TempDir(), "mandate-notify-"+strconv.Itoa(valuesOf(ts).port)) // a short path
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	ts.Check(err)
	defer func() { _ = c.Close(); _ = os.Remove(socket) }()
	got := make(chan string, 1000)
	go func() {
		defer close(got)
		for b := make([]byte, 100); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			got <- string(b[:n])
		}
	}()
	env := func(value, usec string) {
		ts.Setenv("NOTIFY_SOCKET", value)
		ts.Setenv("WATCHDOG_USEC", usec)
	}
	env(socket, "300000")
	ts.Check(ts.Exec(args[0], args[1:]...))
	env("", "")
	_ = c.Close()
	if first := <-got; first != "READY=1" {
		ts.Fatalf("systemd got %q first", first)
	}
	for text := range got {
		if regexp.MustCompile(`^WATCHDOG=1\nSTATUS=(leads, token \d+|owns 1 of 1 shards)$`).MatchString(text) {
			return
		}
	}
	ts.Fatalf("systemd was not told that it runs, and leads")
}

// firstProtocol is the first commit whose messages have a protocol number, for as long as there is no tag.
const firstProtocol = "a96314f0"

// previous: builds the program of the last tag before this commit, in $OLD. It needs the history: in a shallow clone,
// which nothing can mend from inside, it skips loudly.
func cmdPrevious(ts *testscript.TestScript, _ bool, _ []string) {
	v := valuesOf(ts)
	servertest.NeedProgram(v.t, "apt-get install git", "git")
	commit := firstProtocol
	if tag, err := inRoot("git", "describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^").Output(); err == nil {
		commit = strings.TrimSpace(string(tag))
	}
	dir := ts.MkAbs("previous")
	ts.Check(os.Mkdir(dir, 0o700))
	archive := filepath.Join(dir, "source.tar")
	if out, err := inRoot("git", "archive", "-o", archive, commit).CombinedOutput(); err != nil {
		if shallow, _ := inRoot("git", "rev-parse", "--is-shallow-repository").Output(); strings.TrimSpace(string(shallow)) == "false" {
			ts.Fatalf("no %s in a clone with its history: %v %s", commit, err, out)
		}
		v.t.Skipf("SKIPPED: this clone has no %s: NOT tested beside the previous version (git fetch --unshallow --tags): %s", commit, out)
	}
	ts.Check(ts.Exec("tar", "-xf", archive, "-C", dir))
	build := inRoot("go", "build", "-o", ts.MkAbs("previous/mandate"), ".")
	build.Dir = filepath.Join(dir, "cmd/mandate")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("building %s: %v\n%s", commit, err, out)
	}
	ts.Setenv("OLD", ts.MkAbs("previous/mandate"))
}

// otherprotocol: builds this program with another protocol number, in $OTHER.
func cmdOtherProtocol(ts *testscript.TestScript, _ bool, _ []string) {
	const file, number = "elector/internal/protocol/protocol.go", "const Version = 1\n"
	path, err := filepath.Abs(filepath.Join(root, file))
	ts.Check(err)
	source, err := os.ReadFile(path)
	ts.Check(err)
	if !strings.Contains(string(source), number) {
		ts.Fatalf("%s has no %q", file, number)
	}
	changed, overlay := ts.MkAbs("protocol.go.other"), ts.MkAbs("overlay.json")
	ts.Check(os.WriteFile(changed, []byte(strings.Replace(string(source), number, "const Version = 2\n", 1)), 0o600))
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	ts.Check(err)
	ts.Check(os.WriteFile(overlay, b, 0o600))
	build := inRoot("go", "build", "-overlay", overlay, "-o", ts.MkAbs("other"), ".")
	build.Dir = filepath.Join(root, "cmd/mandate")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("building with another protocol number: %v\n%s", err, out)
	}
	ts.Setenv("OTHER", ts.MkAbs("other"))
}

// inRoot is a command in the repository, with the environment of the tests and not of the script.
func inRoot(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath", "CGO_ENABLED=0")
	return cmd
}

const (
	longElection = "an-election-with-a-name-of-more-than-22-characters"
	longID       = "a-candidate-with-an-id-of-more-than-28-characters"
)

// setupSeen gives each script a small Redis in this process, $SEEN, with three
// elections that took place: "seen", whose leader still leads, "gone", and one
// with long names.
func setupSeen(env *testscript.Env) error {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return err
	}
	env.Defer(m.Close)
	env.Setenv("SEEN", "redis://"+m.Addr())
	top, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	env.Setenv("ROOT", top)
	env.Setenv("GORACE", noExitPause)
	record := func(election, kind, who string, token int, second int, more string) error {
		_, err := m.XAdd("mandate:{"+election+"}:history", "*", []string{"event", fmt.Sprintf(
			`{"v":1,"kind":%q,"election":%q,"candidate":%q,"token":%d,"time":"2026-11-21T07:00:%02dZ"%s}`, kind, election, who, token, second, more)})
		return err
	}
	list := func(prefix string, names ...string) (err error) {
		for _, name := range names {
			_, zerr := m.ZAdd(prefix+":elections", 7, name)
			err = errors.Join(err, zerr)
		}
		return err
	}
	for _, err := range []error{
		record("seen", "elected", "a", 10, 0, ""),
		record("seen", "released", "a", 10, 30, `,"reason":"unhealthy","detail":"poll: no progress for 5s"`),
		record("seen", "elected", "b", 20, 31, ""), // it reports nothing more
		record("seen", "elected", "c", 30, 45, ""),
		record("seen", "elected", "forger", 99, 50, ""),
		m.Set("mandate:{seen}:fence", "30"),
		m.Set("mandate:{seen}:lock", "c/INCARNATION/1 n=1 lease=10000 since=1795244445000 token=30"),
		record(longElection, "elected", longID, 5, 0, ""),
		m.Set("mandate:{"+longElection+"}:lock", longID+"/INCARNATION/1 n=1 lease=10000 token=5"),
		m.Set("mandate:{"+longElection+"}:fence", "5"),
		m.Set("mandate:{gone}:fence", "7"),
		m.Set("mandate:{taken}:fence", "no number"),
		list("mandate", "seen", longElection, "gone", "invoices#assigner", "invoices#0"),
		list("other", "elsewhere"),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
