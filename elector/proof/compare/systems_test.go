// Package compare measures what happens to the users of a leader election when something fails: README.md.
package compare

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/health"
)

// System is one column of the table. page.tmpl has its configuration.
type System struct {
	Name  string
	Store func(testing.TB) server
	Nodes int // how many independent stores
	Run   func(ctx context.Context, c *Candidate) error
	// Sentinel watches its store. It has a table of its own.
	Sentinel bool
	// Program must be on PATH.
	Program string
	// Command is that of mandate which runs the candidate's program, and Renews the lease.
	Command []string
	Renews  bool
}

// The controls do not use their stores. A harness that does not see two leaders where all lead, or sees them where
// a kernel admits one, measures nothing.
const (
	always = "everybody-leads"
	kernel = "kernel-lock"
)

var systems = []System{
	{Name: "mandate", Store: redis, Nodes: 1, Run: embedded},
	{Name: "mandate-3", Store: redis, Nodes: 3, Run: embedded},
	{Name: "mandate-run", Store: redis, Nodes: 1, Run: command, Renews: true, Command: runCommand},
	{Name: "mandate-supervise", Store: redis, Nodes: 1, Run: embedded, Command: []string{"supervise", "--"}},
	{Name: "redsync", Store: redis, Nodes: 1, Run: loop(lease/3, redsyncLock)},
	{Name: "redsync-often", Store: redis, Nodes: 1, Run: loop(lease/30, redsyncLock)},
	{Name: "redsync-3", Store: redis, Nodes: 3, Run: loop(lease/3, redsyncLock)},
	{Name: "redislock", Store: redis, Nodes: 1, Run: loop(lease/3, redisLock)},
	{Name: "redislock-often", Store: redis, Nodes: 1, Run: loop(lease/30, redisLock)},
	{Name: "naive", Store: redis, Nodes: 1, Run: loop(lease/3, naiveLock)},
	{Name: "rueidislock", Store: redis, Nodes: 1, Run: rueidisLock},
	{Name: "etcd", Store: etcd, Nodes: 1, Run: election, Program: "etcd"},
	{Name: "client-go", Store: kubernetes, Nodes: 1, Run: kubernetesLease},
	{Name: "postgres", Store: postgres, Nodes: 1, Run: loop(lease/3, advisoryLock), Program: "postgres"},
	{Name: "mandate-sentinel", Store: replicated, Nodes: 1, Run: embedded, Sentinel: true},
	{Name: "redislock-sentinel", Store: replicated, Nodes: 1, Run: loop(lease/3, redisLock), Sentinel: true},
	{Name: "rueidislock-sentinel", Store: replicated, Nodes: 1, Run: rueidisLock, Sentinel: true},
	{Name: kernel, Store: redis, Nodes: 3, Run: flock},
	{Name: always, Store: redis, Nodes: 3, Run: everybody},
}

// Candidate is what a system knows in its process.
type Candidate struct {
	System string
	ID     string
	Addrs  []string // host:port of each store; no other candidate uses them

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
	signal.Notify(c.hang, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for _, s := range systems {
		for s.Name == c.System && ctx.Err() == nil {
			if err := s.Run(ctx, c); err != nil {
				log.Print(err)
				pause(ctx, lease/10)
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
			switch how {
			case syscall.SIGHUP:
				suspend()
			case syscall.SIGUSR2: // heeds nothing
				select {}
			default:
				<-ctx.Done()
				return
			}
		default:
		}
		fmt.Printf("%d %d %d/%d %d\n", time.Now().UnixNano(), os.Getpid(), os.Getpid(), c.terms, token)
		pause(ctx, writeEvery)
	}
}

// suspend stops this process, and returns when it goes on.
func suspend() {
	runtime.LockOSThread() // which must not run on while another one takes the signal
	defer runtime.UnlockOSThread()
	check(syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGSTOP))
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

func must[T any](v T, err error) T {
	check(err)
	return v
}

func everybody(ctx context.Context, c *Candidate) error {
	c.Lead(ctx, 0, nil)
	return nil
}

func flock(ctx context.Context, c *Candidate) error {
	file := must(os.Create("../lock")) // each candidate runs in a folder of its own, and all of these in one
	defer file.Close()
	for ctx.Err() == nil && syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		pause(ctx, writeEvery)
	}
	c.Lead(ctx, 0, nil)
	return nil
}

func embedded(ctx context.Context, c *Candidate) error {
	addrs := c.Addrs
	if c.bySentinel() {
		addrs = []string{"redis+sentinel://" + addrs[0] + "?master_name=" + master}
	}
	q := must(elector.Open(addrs...))
	defer q.Close()
	beat := health.NewHeartbeat(lease / 2)
	e := must(elector.New(q, elector.Config{Election: key, ID: c.ID, Lease: lease, WorkProbe: beat}))
	return e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		c.Lead(ctx, term.Token(), func() bool {
			beat.Beat()
			return true
		})
		return nil
	})
}

// alive is in the folder of the candidate, in which both processes run.
const alive = "alive"

var runCommand = []string{"run", "--election", key, "--lease", lease.String(), "--probe-file", alive, "--"}

// command is what `mandate run` runs while it leads.
func command(ctx context.Context, c *Candidate) error {
	token := must(strconv.ParseUint(os.Getenv("MANDATE_TOKEN"), 10, 64))
	check(os.WriteFile(alive, nil, 0o600))
	c.Lead(ctx, token, func() bool { return os.Chtimes(alive, time.Time{}, time.Now()) == nil })
	return nil
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

// sentinels are three that watch a master and its replica; a candidate is told one of them.
type sentinels struct {
	*servertest.Server
	master *servertest.Server
}

const master = "main"

func (c *Candidate) bySentinel() bool { return strings.HasSuffix(c.System, "-sentinel") }

func replicated(t testing.TB) server {
	s := &sentinels{master: redis(t).(*servertest.Server)}
	_, port, _ := net.SplitHostPort(s.master.Addr())
	servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "no", "--replicaof", "127.0.0.1 "+port, "--repl-diskless-sync-delay", "0")
	for range 3 {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		check(os.WriteFile(file, fmt.Appendf(nil, "sentinel monitor %[1]s 127.0.0.1 %[2]s 2\nsentinel down-after-milliseconds %[1]s 1000\n", master, port), 0o600))
		s.Server = servertest.Redis(t, file, "--sentinel")
	}
	servertest.Eventually(t, time.Minute, "the sentinels know all servers", func() bool {
		return strings.Contains(s.Do(t, "INFO", "sentinel").(string), "slaves=1,sentinels=3")
	})
	return s
}

// dataOf returns the folder of a store.
func dataOf(s server) string {
	if d, ok := s.(*daemon); ok {
		return d.dir
	}
	return s.(*servertest.Server).Dir
}

// daemon is a store other than Redis. Its processes run in its folder.
type daemon struct {
	dir, port string
	command   func(d *daemon) *exec.Cmd
	cmd       *exec.Cmd
}

func newDaemon(t testing.TB, command func(d *daemon) *exec.Cmd) server {
	d := &daemon{dir: folder(t) + "/data", port: strconv.Itoa(servertest.FreePort(t)), command: command}
	d.Restart(t)
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // PostgreSQL would leave shared memory behind after SIGKILL
		_ = d.cmd.Wait()
	})
	return d
}

// folder returns one that PostgreSQL's user can enter.
func folder(t testing.TB) string {
	dir := t.TempDir()
	check(errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)))
	return dir
}

func (d *daemon) Restart(t testing.TB) {
	d.cmd = d.command(d)
	check(os.MkdirAll(d.dir, 0o755))
	d.cmd.Dir = d.dir
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(d.cmd.Start())
	servertest.Eventually(t, 20*time.Second, d.cmd.Path+" is up", func() bool {
		conn, err := net.Dial("tcp", d.Addr())
		return err == nil && conn.Close() == nil
	})
}

func (d *daemon) Kill() {
	send(syscall.SIGKILL, processes(d.dir)...)
	_ = d.cmd.Wait()
}

func (d *daemon) Addr() string      { return "127.0.0.1:" + d.port }
func (d *daemon) Forget(testing.TB) { check(os.RemoveAll(d.dir)) }
func (d *daemon) Hang(testing.TB)   { send(syscall.SIGSTOP, processes(d.dir)...) }
func (d *daemon) Wake(testing.TB)   { send(syscall.SIGCONT, processes(d.dir)...) }

func etcd(t testing.TB) server {
	return newDaemon(t, func(d *daemon) *exec.Cmd {
		url, peer := "http://"+d.Addr(), "http://127.0.0.1:0"
		return exec.Command("etcd", "--data-dir", "etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	})
}

// postgres starts as a copy of one that is made once: initdb takes a processor for a second.
func postgres(t testing.TB) server {
	return newDaemon(t, func(d *daemon) *exec.Cmd {
		if _, err := os.Stat(d.dir); err != nil {
			check(exec.Command("cp", "-a", newCluster(), d.dir).Run())
		}
		return asPostgres("postgres", "-D", d.dir, "-p", d.port, "-c", "unix_socket_directories=", "-c", "fsync=off")
	})
}

var newCluster func() string // once for all cells

func initdb(dir string) string {
	check(asPostgres("initdb", "-D", dir, "-U", "mandate", "-A", "trust", "--no-sync").Run())
	return dir
}

// asPostgres runs a program as the user postgres if this one is root, whom PostgreSQL refuses.
func asPostgres(program string, args ...string) *exec.Cmd {
	if os.Geteuid() == 0 {
		args = append([]string{"--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL", program}, args...)
		program = "setpriv"
	}
	return exec.Command(program, args...)
}

// envAPI has the address at which a process of this program serves the Lease.
const envAPI = "COMPARE_API"

func kubernetes(t testing.TB) server {
	return newDaemon(t, func(d *daemon) *exec.Cmd {
		return exec.Command("env", envAPI+"="+d.Addr(), must(os.Executable()))
	})
}

// serveLease is as much of Kubernetes' API as one Lease needs: it is stored if the writer has read the newest version.
func serveLease(addr string) {
	var mu sync.Mutex
	check(http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodGet {
			var stored, sent coordinationv1.Lease
			data, _ := os.ReadFile("lease.json")
			_ = json.Unmarshal(data, &stored)
			if json.NewDecoder(r.Body).Decode(&sent) != nil || sent.ResourceVersion != stored.ResourceVersion {
				w.WriteHeader(http.StatusConflict)
				return
			}
			sent.ResourceVersion = rand.Text()
			data = must(json.Marshal(sent))
			check(errors.Join(os.WriteFile("new.json", data, 0o600), os.Rename("new.json", "lease.json")))
		}
		http.ServeFile(w, r, "lease.json")
	})))
}
