//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/internal/servertest"
)

const (
	promiseLease  = time.Second
	promiseSecret = "long-enough-secret"
)

// replica is a mandate serve, and the program that works beside it by what it
// answers, to the letter of docs/http.md.
type replica struct {
	t         *testing.T
	j         *journal
	id, url   string
	argv      []string
	client    *http.Client
	log       *os.File
	unhealthy atomic.Bool
	reports   bool          // it has a name, and reports when it has stopped
	beyond    time.Duration // sabotage: it works for longer than it may

	mu   sync.Mutex
	proc *exec.Cmd
	done chan struct{}
}

func newReplica(t *testing.T, j *journal, redis, tokenFile string, n int) *replica {
	t.Helper()
	r := &replica{t: t, j: j, id: "r" + strconv.Itoa(n), reports: n > 0}
	r.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // none is left behind
	var err error
	if r.log, err = os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		t.Fatal(err)
	}
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if r.unhealthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(health.Close)
	addr := "127.0.0.1:" + strconv.Itoa(servertest.FreePort(t))
	r.url = "http://" + addr
	r.argv = []string{
		"mandate", "--redis", redis, "serve", "--election", "e", "--id", r.id, "--http", addr, "--health-url", health.URL, "--lease", promiseLease.String(),
		"--http-token-file", tokenFile, "--cooldown", "50ms", "--probe-interval", "50ms", "--probe-failures", "1",
	}
	t.Cleanup(func() {
		r.signal(syscall.SIGKILL)
		<-r.done
		if b, err := os.ReadFile(r.log.Name()); t.Failed() {
			t.Logf("%s logged (%v):\n%s", r.id, err, b)
		}
		r.log.Close()
	})
	r.start()
	return r
}

func (r *replica) start() {
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: r.argv, Env: append(os.Environ(), "GORACE="+noExitPause), Stderr: r.log} // the test binary is mandate under that name
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	r.mu.Lock()
	r.proc, r.done = cmd, done
	r.mu.Unlock()
}

func (r *replica) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.proc.Process.Signal(s)
}

// request waits for the answer for that long at most.
func (r *replica) request(method, path string, limit time.Duration) (int, leadershipSeen) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, http.NoBody)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+promiseSecret)
	var seen leadershipSeen
	res, err := r.client.Do(req)
	if err != nil {
		return 0, seen
	}
	defer res.Body.Close()
	if json.NewDecoder(res.Body).Decode(&seen) != nil {
		return 0, seen
	}
	return res.StatusCode, seen
}

type leadershipSeen struct {
	Token    uint64 `json:"token"`
	ValidFor int64  `json:"valid_for_ms"`
}

// work is the program: it sends a request, works for as long as it may unless it sends another
// before, and stops.
func (r *replica) work(ctx context.Context, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	query := ""
	if r.reports {
		query = "?worker=program-" + r.id
	}
	var until time.Duration // by the newest promise
	var token uint64
	for ctx.Err() == nil {
		sent := r.j.now()
		code, seen := r.request(http.MethodGet, "/leader"+query, promiseLease/2)
		valid := time.Duration(seen.ValidFor) * time.Millisecond
		switch now := r.j.now(); {
		case code == http.StatusOK && now < sent+valid:
			token, until = seen.Token, sent+valid
			r.j.write(entry{r.id, token, now, until + r.beyond})
			// The next request comes soon, in good time, or only when its time has ended.
			sleep(ctx, time.Duration(rnd.Float64()*1.2*float64(until-now)))
		case r.reports && now < until+promiseLease && token != 0 && r.beyond == 0:
			r.j.write(entry{Who: r.id, Token: token, From: now}) // first it stops
			r.request(http.MethodPost, fmt.Sprintf("/stopped%s&token=%d", query, token), promiseLease/2)
			token = 0
		default:
			sleep(ctx, 10*time.Millisecond)
		}
	}
}

// disturb ends terms in all ways, of the leader mostly.
func disturb(ctx context.Context, rnd *rand.Rand, redis *servertest.Server, all []*replica, faults map[string]int) {
	between := func(shortest, longest time.Duration) time.Duration {
		return shortest + time.Duration(rnd.Int64N(int64(longest-shortest)))
	}
	for ctx.Err() == nil {
		sleep(ctx, between(promiseLease/10, promiseLease/2))
		r := all[rnd.IntN(len(all))]
		for _, leader := range all {
			if rnd.IntN(4) > 0 {
				if code, _ := leader.request(http.MethodGet, "/leader?valid_for_ms=0", promiseLease/4); code == http.StatusOK {
					r = leader
				}
			}
		}
		switch what := rnd.IntN(100); {
		case what < 25:
			faults["resigned"]++
			r.request(http.MethodPost, "/resign?force=true", 3*promiseLease)
		case what < 35:
			faults["transferred"]++
			r.request(http.MethodPost, "/transfer?to="+all[rnd.IntN(len(all))].id, 3*promiseLease)
		case what < 55:
			faults["terminated"]++
			r.signal(syscall.SIGTERM)
			<-r.done
			r.start()
		case what < 70:
			faults["unhealthy"]++
			r.unhealthy.Store(true)
			sleep(ctx, between(promiseLease/5, promiseLease))
			r.unhealthy.Store(false)
		case what < 82:
			faults["stopped and continued"]++
			r.signal(syscall.SIGSTOP)
			sleep(ctx, between(promiseLease/10, 2*promiseLease))
			r.signal(syscall.SIGCONT)
		case what < 92:
			faults["killed"]++
			r.signal(syscall.SIGKILL)
			<-r.done
			r.start()
		default:
			faults["redis hung"]++
			redis.Hang(r.t)
			sleep(ctx, between(promiseLease/10, 3*promiseLease/2))
			redis.Wake(r.t)
		}
	}
}

// play lets it run for a while, and returns the journal.
func play(t *testing.T, lasts time.Duration, seed uint64, beyond time.Duration) []entry {
	t.Helper()
	j := newJournal(t)
	redis := servertest.Redis(t)
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(promiseSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	var programs sync.WaitGroup
	var all []*replica
	for n := range 3 {
		r := newReplica(t, j, redis.URL(), tokenFile, n)
		r.beyond = beyond
		all = append(all, r)
		programs.Go(func() { r.work(ctx, seed+uint64(n)) })
	}
	faults := map[string]int{}
	disturb(ctx, rand.New(rand.NewPCG(seed, 0)), redis, all, faults)
	cancel()
	programs.Wait()
	entries := j.read(t)
	terms := map[uint64]bool{}
	for _, e := range entries {
		terms[e.Token] = true
	}
	t.Logf("%v, seed %d: %d promises in %d terms; %v", lasts, seed, len(entries), len(terms), faults)
	return entries
}

// TestServePromisesReal lets real mandate serves lead one after the other, each beside a program
// that obeys docs/http.md, and ends their terms in all ways: at no time may two
// programs work. MANDATE_SERVE_TIME=10m plays for longer, MANDATE_SERVE_SEED repeats
// the order of the faults. Clocks that step are in electorhttp's
// TestPromisesInTheSimulation.
func TestServePromisesReal(t *testing.T) {
	servertest.NeedRedis(t)
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("MANDATE_SERVE_TIME"), "12s"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("MANDATE_SERVE_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	entries := play(t, lasts, seed, 0)
	for _, found := range overlaps(entries) {
		t.Error(found)
	}
	if len(entries) == 0 {
		t.Error("no program was promised anything: that proves nothing")
	}
}

// A program that works for longer than it may is found: else the test above would
// prove nothing.
func TestServePromisesRealSabotaged(t *testing.T) {
	servertest.NeedRedis(t)
	for range 5 {
		if len(overlaps(play(t, 4*time.Second, uint64(time.Now().UnixNano()), promiseLease))) > 0 {
			return
		}
	}
	t.Error("programs that continue for a lease are not noticed")
}
