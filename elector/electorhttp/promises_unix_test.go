//go:build unix

package electorhttp_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// What the supervisor can't know, because its pipe is full, is not promised: after a kill -9 it would release the
// lock before the promise has lapsed. A process uses the pipe that it finds first, so this one is another process.
func TestNoPromiseWithoutTheSupervisor(t *testing.T) {
	if os.Getenv("MANDATE_TEST_SUPERVISED") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "MANDATE_TEST_SUPERVISED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var fds [2]int
	must(t, syscall.Pipe(fds[:]))
	var st syscall.Stat_t
	must(t, errors.Join(syscall.SetNonblock(fds[1], true), syscall.Fstat(fds[1], &st)))
	t.Setenv(supervised.Variable, fmt.Sprintf("%d:%d", fds[1], st.Ino))
	full := 0
	for _, size := range []int{4096, 1} {
		for err := error(nil); err == nil; {
			var n int
			n, err = syscall.Write(fds[1], make([]byte, size))
			full += max(n, 0)
		}
	}
	bubble(t, func(t *testing.T, s *stage) {
		p := startPair(t, s, electorhttp.Config{})
		if code, l, _ := p.ask(""); code != http.StatusOK || l.ValidFor != 0 {
			t.Fatalf("the pipe is full: %d, %d ms", code, l.ValidFor)
		}
		supervisor := os.NewFile(uintptr(fds[0]), "pipe")
		for full > 0 {
			n, err := supervisor.Read(make([]byte, min(full, 1<<16)))
			must(t, err)
			full -= n
		}
		code, l, _ := p.ask("")
		var m supervised.Message
		line, err := bufio.NewReader(supervisor).ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &m) != nil || m.Promised == nil {
			t.Fatalf("%q, %v", line, err)
		}
		want := supervised.Promise{Prefix: "mandate", Election: "e", Token: p.a.Term().Token(), For: m.Promised.For}
		if code != http.StatusOK || l.ValidFor == 0 || *m.Promised != want || want.For < time.Duration(l.ValidFor)*time.Millisecond {
			t.Errorf("%d: promised %d ms, the supervisor knows %+v", code, l.ValidFor, m.Promised)
		}
	})
}
