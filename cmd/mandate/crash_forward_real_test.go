//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/internal/servertest"
)

// forwarded is a request to a replica, as its client saw it.
type forwarded struct {
	method, path string
	sent, ended  time.Time
	code         int
	err          error
}

// load sends GET and POST in turn until ctx ends, several at a time.
func load(ctx context.Context, url string) (all []forwarded) {
	var mu sync.Mutex
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				f := forwarded{method: http.MethodGet, path: fmt.Sprintf("/%d/%d", client, n), sent: time.Now()}
				if n%2 == 1 {
					f.method = http.MethodPost
				}
				var resp *http.Response
				r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), f.method, url+f.path, nil)
				if err == nil {
					resp, err = http.DefaultClient.Do(r)
				}
				if f.err = err; err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					f.code = resp.StatusCode
				}
				f.ended = time.Now()
				mu.Lock()
				all = append(all, f)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return all
}

// Of the requests through a replica those fail that were under way at a leader that was killed, and must not be
// executed twice; all others wait for the next one.
func TestCrashFailsOnlyWhatWasUnderWay(t *testing.T) {
	c := newCrash(t)
	var mu sync.Mutex
	executed := map[string]int{}
	program := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		executed[r.Method+r.URL.Path]++
		mu.Unlock()
		time.Sleep(2 * time.Millisecond)
	}))
	t.Cleanup(program.Close)
	replica := func(id string, before ...string) (cmd *exec.Cmd, url string) {
		addr := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
		cmd = c.start(append(before, "--log-level", "error", "serve", "--election", "e", "--id", id,
			"--lease", crashLease.String(), "--health-url", c.health, "--http", "127.0.0.1:0", "--forward", addr, "--forward-to", program.URL)...)
		return cmd, "http://" + addr
	}
	a, _ := replica("a", "supervise", "--", "mandate")
	c.leads("a")
	_, url := replica("b")
	if err := poll(func() error {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var all []forwarded
	done := make(chan struct{})
	go func() { defer close(done); all = load(ctx, url) }()
	time.Sleep(300 * time.Millisecond)
	worker := childrenOf(t, a.Process.Pid)[0]
	killed := time.Now()
	_ = syscall.Kill(worker, syscall.SIGKILL)
	c.leads("b")
	dead := time.Now()
	time.Sleep(300 * time.Millisecond)
	stop()
	<-done
	failed := 0
	for _, f := range all {
		if f.err == nil && f.code == http.StatusOK {
			continue
		}
		failed++
		if f.method != http.MethodPost || f.code != http.StatusBadGateway || f.sent.After(dead) || f.ended.Before(killed) {
			t.Errorf("%s %s: %d, %v; sent %v and ended %v after the kill", f.method, f.path, f.code, f.err, f.sent.Sub(killed), f.ended.Sub(killed))
		}
	}
	for request, n := range executed {
		if n > 1 && request[:4] == http.MethodPost {
			t.Errorf("%s was executed %d times", request, n)
		}
	}
	t.Logf("%d requests, %d under way at the dead leader failed; the next one led after at most %v", len(all), failed, dead.Sub(killed))
	if failed > 8 {
		t.Errorf("%d requests failed, and 8 were sent at a time", failed)
	}
}
