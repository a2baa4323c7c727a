// Package compare measures what happens to the users of a leader election when something fails: README.md.
package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/health"
)

// System is one column of the table.
type System struct {
	Name   string
	Module string // of a peer, for its version
	Store  func(testing.TB) server
	Nodes  int // how many independent stores
	Run    func(ctx context.Context, c *Candidate) error
	Setup  string // its configuration, for the page
	// Program must be installed. Command is that of mandate which runs the candidate's program, and Renews the lease.
	Program string
	Command func(c Candidate) []string
	Renews  bool
}

// The controls do not use their stores. A harness that does not see two leaders where all lead, or sees them where
// a kernel admits one, measures nothing.
const (
	always = "everybody-leads"
	kernel = "kernel-lock"
)

const careful = "a careful loop: tries every L/3 ± 10 %, extends every L/3, each call bounded by L/3 and not retried by go-redis; before each write " +
	"the work checks that the last confirmed request was sent less than 0.99 L ago; after an unclear answer the next try is L/15 later; releases"

var systems = []System{
	{Name: "mandate", Store: redis, Nodes: 1, Run: embedded, Setup: "`elector.Run`, defaults but for the lease; the `WorkProbe` is a heartbeat of L/2; the work looks at its context only"},
	{Name: "mandate-3", Store: redis, Nodes: 3, Run: embedded, Setup: "the same on three Redis"},
	{
		Name: "mandate-run", Store: redis, Nodes: 1, Run: command, Command: runCommand, Renews: true,
		Setup: "`mandate run --probe-file FILE -- WRITER`, defaults but for the lease; the writer checks nothing, and touches the file before each write",
	},
	{Name: "mandate-supervise", Store: redis, Nodes: 1, Run: embedded, Command: superviseCommand, Setup: "`mandate supervise --` and the program of the first column"},
	{Name: "redsync", Module: "github.com/go-redsync/redsync/v4", Store: redis, Nodes: 1, Run: redsyncLoop, Setup: careful + "; `WithFailFast`"},
	{Name: "redsync-3", Module: "github.com/go-redsync/redsync/v4", Store: redis, Nodes: 3, Run: redsyncLoop, Setup: "the same on three Redis"},
	{Name: "redislock", Module: "github.com/bsm/redislock", Store: redis, Nodes: 1, Run: redislockLoop, Setup: "the same loop"},
	{
		Name: "rueidislock", Module: "github.com/redis/rueidis", Store: redis, Nodes: 1, Run: rueidisLock,
		Setup: "`WithContext`; `KeyValidity` L; `KeyMajority` 1 and `NoLoopTracking`, as its README has it for one server; `TryNextAfter` L/10: its default of 20 ms elects nobody on a busy machine",
	},
	{
		Name: "etcd", Module: "go.etcd.io/etcd/client/v3", Store: etcd, Program: "etcd", Nodes: 1, Run: election,
		Setup: "`concurrency.Election`, one member; a session of TTL L for each term; `Campaign` ends with its session, the work with `Done`; then `Resign` and " +
			"`Close`; the token is `Rev`, and the store had 50 writes before, so that revisions that start again show",
	},
	{Name: kernel, Store: redis, Nodes: 3, Run: flock, Setup: "control: `flock` on a file"},
	{Name: always, Store: redis, Nodes: 3, Run: everybody, Setup: "control: each candidate leads at all times"},
}

// server is one store of a cell; after Kill and Forget it restarts empty.
type server interface {
	Addr() string
	Kill()
	Forget(testing.TB)
	Restart(testing.TB)
	Hang(testing.TB)
	Wake(testing.TB)
}

// A killed process leaves to the kernel what it has written: no fsync is needed.
func redis(t testing.TB) server {
	return servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "no")
}

// Candidate is what a system knows in its process.
type Candidate struct {
	System string
	ID     string
	Addrs  []string // host:port of each store; no other candidate uses them
	Dir    string   // its own
	Shared string   // the same for all candidates
	Lease  time.Duration

	terms int
	hang  chan os.Signal
}

// envCandidate has the Candidate in JSON. `mandate run` passes it on.
const envCandidate = "COMPARE_CANDIDATE"

// writeEvery is how often a leader writes: the resolution of the table.
const writeEvery = 10 * time.Millisecond

// campaign is the main function of a candidate's process.
func campaign(spec string) {
	go func() { // the harness has ended, and nobody is left to end us
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	c := &Candidate{hang: make(chan os.Signal, 1)}
	check(json.Unmarshal([]byte(spec), c))
	signal.Notify(c.hang, syscall.SIGUSR1, syscall.SIGUSR2)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for _, s := range systems {
		for s.Name == c.System && ctx.Err() == nil {
			if err := s.Run(ctx, c); err != nil {
				log.Print(err)
				pause(ctx, c.Lease/10)
			}
		}
	}
}

// Lead is the work of a leader: it writes to a resource every 10 ms until ctx ends, or until leads, if there is one,
// denies it before a write. The resource is the harness, at the other end of stdout.
func (c *Candidate) Lead(ctx context.Context, token uint64, leads func() bool) {
	c.terms++
	for ctx.Err() == nil && (leads == nil || leads()) {
		select {
		case how := <-c.hang:
			if how == syscall.SIGUSR2 { // heeds nothing
				select {}
			}
			<-ctx.Done()
		default:
			fmt.Printf("%d %d %d/%d %d\n", time.Now().UnixNano(), os.Getpid(), os.Getpid(), c.terms, token)
			pause(ctx, writeEvery)
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func everybody(ctx context.Context, c *Candidate) error {
	c.Lead(ctx, 0, nil)
	return nil
}

func flock(ctx context.Context, c *Candidate) error {
	file, err := os.Create(c.Shared + "/lock")
	check(err)
	defer file.Close()
	for ctx.Err() == nil && syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		pause(ctx, writeEvery)
	}
	c.Lead(ctx, 0, nil)
	return nil
}

func embedded(ctx context.Context, c *Candidate) error {
	q, err := elector.Open(c.Addrs...)
	if err != nil {
		return err
	}
	defer q.Close()
	beat := health.NewHeartbeat(c.Lease / 2)
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	e, err := elector.New(q, elector.Config{Election: "compare", ID: c.ID, Lease: c.Lease, WorkProbe: beat, Logger: logger})
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		c.Lead(ctx, term.Token(), func() bool {
			beat.Beat()
			return true
		})
		return nil
	})
}

func superviseCommand(Candidate) []string { return []string{"supervise", "--"} }

func runCommand(c Candidate) []string {
	return []string{"run", "--election", "compare", "--lease", c.Lease.String(), "--probe-file", alive, "--"}
}

// alive is in the folder of the candidate, in which both processes run.
const alive = "alive"

// command is what `mandate run` runs while it leads.
func command(ctx context.Context, c *Candidate) error {
	token, err := strconv.ParseUint(os.Getenv("MANDATE_TOKEN"), 10, 64)
	check(err)
	check(os.WriteFile(alive, nil, 0o600))
	c.Lead(ctx, token, func() bool { return os.Chtimes(alive, time.Time{}, time.Now()) == nil })
	os.Exit(0)
	return nil
}
