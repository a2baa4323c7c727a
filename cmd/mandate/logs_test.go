//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// politeScript notes when it starts and when it gets SIGTERM, and whether it
// ignores any signal.
const politeScript = `exec 2>/dev/null # it shares the log, and a shell writes much there
trap 'echo stop >>journal; [ -e stubborn ] || exit 0' TERM
grep '^SigIgn' /proc/self/status >>signals
echo start $$ >>journal
while :; do sleep 0.02; done`

// unread is a leading `mandate run` whose log is a pipe, full to the brim when full.
type unread struct {
	t      *testing.T
	dir    string
	cmd    *running
	reader *os.File
	redis  *redis.Client
}

func startUnread(t *testing.T, full bool, lease, grace string) *unread {
	t.Helper()
	port := servertest.FreePort(t)
	servertest.RedisOn(t, port)
	u := &unread{t: t, dir: t.TempDir(), redis: redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(port)})}
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); u.redis.Close() })
	u.reader = r
	if full {
		raw, _ := w.SyscallConn()
		raw.Write(func(fd uintptr) bool {
			for err := error(nil); err == nil; _, err = syscall.Write(int(fd), []byte("x")) {
			}
			return true
		})
	}
	u.cmd = startMandate(t, u.dir, "redis://127.0.0.1:"+strconv.Itoa(port), w, nil, // exec makes the pipe a blocking one
		"run", "--election", "e", "--id", "a", "--lease", lease, "--grace", grace, "--", "sh", "-c", politeScript)
	w.Close()
	t.Cleanup(u.cmd.kill)
	u.await("start ", 1)
	return u
}

// await waits until a word stands n times in the journal.
func (u *unread) await(word string, n int) {
	u.t.Helper()
	if err := poll(func() error {
		text, _ := os.ReadFile(filepath.Join(u.dir, "journal"))
		if got := strings.Count(string(text), word); got < n {
			return errors.New(word + "stands " + strconv.Itoa(got) + " times in the journal")
		}
		return nil
	}); err != nil {
		u.t.Fatal(err)
	}
}

// ends waits for the end of mandate with exit code 0, much sooner than its lease ends.
func (u *unread) ends() {
	u.t.Helper()
	u.cmd.ends(u.t, 15*time.Second, 0)
	if keys := u.redis.Keys(context.Background(), "*lock*").Val(); len(keys) > 0 {
		u.t.Errorf("the lock was not released: %q", keys)
	}
}

// A log without a reader holds up neither the first signal, nor the second, nor the
// SIGTERM of a command whose lock is lost.
func TestRealLogWithoutReader(t *testing.T) {
	servertest.NeedRedis(t)
	t.Run("second signal", func(t *testing.T) {
		u := startUnread(t, true, "80s", "20s")
		must(t, os.WriteFile(filepath.Join(u.dir, "stubborn"), nil, 0o600))
		u.cmd.Process.Signal(syscall.SIGTERM)
		u.await("stop", 1)
		time.Sleep(echo) // sooner it would be an echo of the first
		began := time.Now()
		u.cmd.Process.Signal(syscall.SIGTERM)
		u.ends()
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("the second signal took %v: that was the grace", d)
		}
	})
	t.Run("lost lock", func(t *testing.T) {
		u := startUnread(t, true, "20s", "5s")
		keys := u.redis.Keys(context.Background(), "*lock*").Val()
		if len(keys) == 0 {
			t.Fatalf("no lock in %q", u.redis.Keys(context.Background(), "*").Val())
		}
		u.redis.Set(context.Background(), keys[0], "another's", 0)
		u.await("stop", 1) // and not SIGKILL, from the helper
		u.redis.Del(context.Background(), keys...)
		u.await("start ", 2)
		u.cmd.Process.Signal(syscall.SIGTERM)
		u.ends()
	})
}

// When the reader of the log goes away mandate remains leader, and the command has the
// signals that a shell would have given it.
func TestRealLogReaderGoesAway(t *testing.T) {
	servertest.NeedRedis(t)
	u := startUnread(t, false, "20s", "5s")
	u.reader.Close()
	u.cmd.Process.Signal(syscall.SIGTERM)
	u.ends()
	u.await("start ", 1)
	text, _ := os.ReadFile(filepath.Join(u.dir, "signals"))
	for line := range strings.Lines(string(text)) {
		mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(line, "SigIgn:")), 16, 64)
		if sigpipe := uint64(1) << (syscall.SIGPIPE - 1); err != nil || mask&sigpipe != 0 {
			t.Errorf("the command ignores SIGPIPE: %s, %v", line, err)
		}
	}
}

// logReader is a log's reader that may hang, or be gone.
type logReader struct {
	bytes.Buffer
	hangs chan struct{} // until it is closed
	err   error
}

func (r *logReader) Write(p []byte) (int, error) {
	<-r.hangs
	if r.err != nil {
		return 0, r.err
	}
	return r.Buffer.Write(p)
}

// A reader that hangs or is gone holds up nothing; what was dropped is counted, and reported when there is
// room again, before what comes then. The end waits for the reader, but not for ever.
func TestHungReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &logReader{hangs: make(chan struct{}), err: errors.New("broken pipe")}
		q := newLogQueue(r, func(lost int64) error {
			_, err := fmt.Fprintf(r, "lost %d\n", lost)
			return err
		})
		fmt.Fprintln(q, "line")
		synctest.Wait() // it is being written
		began := time.Now()
		for range maxQueued + 7 {
			fmt.Fprintln(q, "line")
		}
		if time.Since(began) != 0 {
			t.Fatal("it blocked")
		}
		close(r.hangs)
		synctest.Wait() // everything is lost
		r.err = nil
		fmt.Fprintln(q, "the reader is back")
		synctest.Wait()
		r.hangs = make(chan struct{})
		fmt.Fprintln(q, "line")
		if q.close(time.Second); time.Since(began) != time.Second {
			t.Errorf("the end took %v, want a second", time.Since(began))
		}
		if got, want := r.String(), fmt.Sprintf("lost %d\nthe reader is back\n", 1+maxQueued+7); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		close(r.hangs)
	})
}

// With --log-format json every line on stderr is JSON, also the last one, which says why the command ends: of flags, of a
// Redis that refuses, and where no address is named.
func TestJSONLogsToTheLastLine(t *testing.T) {
	m := miniredis.RunT(t)
	m.Set("mandate:{taken}:fence", "no number")
	t.Setenv("MANDATE_LOG_FORMAT", "json")
	unset := func(name string) {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	unset("MANDATE_REDIS")
	redis := []string{"--redis", "redis://" + m.Addr()}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"run", "--leese", "3s"}, exitUsage},
		{[]string{"run", "--election", "e", "--lease", "1", "--", "true"}, exitUsage},
		{[]string{"serve", "--election", "e"}, exitUsage},
		{append(redis, "run", "--election", "e", "--once", "--", "false"), exitFailed},
		{append(redis, "run", "--election", "e", "--", "no-such-command"), exitNotFound},
		{append(redis, "run", "--election", "e{", "--", "true"), exitUsage},
		{append(redis, "run", "--election", "taken", "--lease", "200ms", "--", "true"), exitPermanent},
		{[]string{"run", "--redis", "127.0.0.1:1", "--election", "e", "--lease", "200ms", "--once", "--wait", "0s", "--", "true"}, exitUnreachable},
		{append(redis, "serve", "--election", "e", "--health-url", "http://127.0.0.1:1", "--http", "127.0.0.1:99999"), exitUsage},
	} {
		var logs servertest.Logbook
		code := execute(t.Context(), c.args, io.Discard, &logs)
		lines := strings.Split(strings.TrimSpace(logs.String()), "\n")
		if code != c.code {
			t.Errorf("%q: exit code %d, want %d\n%s", c.args, code, c.code, logs.String())
		}
		var last map[string]any
		for _, line := range lines {
			last = nil
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Errorf("%q prints %q", c.args, line)
			}
		}
		if code != exitFailed && (last["level"] != "ERROR" || last["exit_code"] != float64(code) || last["error"] == "") {
			t.Errorf("%q ends with %q", c.args, lines[len(lines)-1])
		}
	}
}
