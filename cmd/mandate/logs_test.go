//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

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
