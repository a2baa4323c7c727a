package compare

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const key = "compare"

// lock is one that knows neither deadlines nor renewals.
type lock struct {
	try, extend func(context.Context) error
	release     func(context.Context)
}

// errLost is the answer of a store that somebody else may have the lock.
var errLost = errors.New("lost")

// carefully is the loop that a careful engineer writes around such a lock: by it the library is to be judged.
func carefully(ctx context.Context, c *Candidate, l lock) error {
	for ctx.Err() == nil {
		sent := time.Now()
		if bounded(ctx, c.Lease/3, l.try) != nil {
			pause(ctx, time.Duration(float64(c.Lease)/3*(0.9+0.2*rand.Float64())))
			continue
		}
		leadCarefully(ctx, c, l, sent)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Lease/3)
		l.release(end)
		cancel()
	}
	return nil
}

func leadCarefully(ctx context.Context, c *Candidate, l lock, sent time.Time) {
	term, cancel := context.WithCancel(ctx)
	defer cancel()
	var confirmed atomic.Pointer[time.Time]
	confirmed.Store(&sent)
	go func() {
		defer cancel()
		for wait := c.Lease / 3; ; {
			pause(term, wait)
			sent := time.Now()
			switch err := bounded(term, c.Lease/3, l.extend); {
			case term.Err() != nil || errors.Is(err, errLost):
				return
			case err != nil:
				wait = c.Lease / 15
			default:
				confirmed.Store(&sent)
				wait = c.Lease / 3
			}
		}
	}()
	c.Lead(term, 0, func() bool { return time.Since(*confirmed.Load()) < c.Lease*99/100 })
}

func bounded(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// client is go-redis without what makes a call longer than its context.
func (c *Candidate) client(i int) *goredislib.Client {
	return goredislib.NewClient(&goredislib.Options{Addr: c.Addrs[i], ContextTimeoutEnabled: true, MaxRetries: -1})
}

func redsyncLoop(ctx context.Context, c *Candidate) error {
	var pools []redsyncredis.Pool
	for i := range c.Addrs {
		pools = append(pools, goredis.NewPool(c.client(i)))
	}
	m := redsync.New(pools...).NewMutex(key, redsync.WithExpiry(c.Lease), redsync.WithTries(1), redsync.WithFailFast(true))
	extend := func(ctx context.Context) error {
		_, err := m.ExtendContext(ctx)
		if taken := new(redsync.ErrTaken); errors.As(err, &taken) {
			return errLost // by a majority
		}
		return err
	}
	release := func(ctx context.Context) { _, _ = m.UnlockContext(ctx) }
	return carefully(ctx, c, lock{try: m.TryLockContext, extend: extend, release: release})
}

func redislockLoop(ctx context.Context, c *Candidate) error {
	locker := redislock.New(c.client(0))
	var l *redislock.Lock
	try := func(ctx context.Context) (err error) {
		l, err = locker.Obtain(ctx, key, c.Lease, nil)
		return err
	}
	extend := func(ctx context.Context) error {
		err := l.Refresh(ctx, c.Lease, nil)
		if errors.Is(err, redislock.ErrNotObtained) {
			return errLost
		}
		return err
	}
	release := func(ctx context.Context) { _ = l.Release(ctx) }
	return carefully(ctx, c, lock{try: try, extend: extend, release: release})
}

func rueidisLock(ctx context.Context, c *Candidate) error {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: c.Addrs}, KeyMajority: 1, KeyValidity: c.Lease, NoLoopTracking: true, TryNextAfter: c.Lease / 10,
	})
	if err != nil {
		return err
	}
	defer locker.Close()
	for {
		term, cancel, err := locker.WithContext(ctx, key)
		if err != nil {
			return err
		}
		c.Lead(term, 0, nil)
		cancel()
	}
}

func election(ctx context.Context, c *Candidate) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Addrs, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	for range 50 {
		if _, err := client.Put(ctx, "/used", c.ID); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		if etcdTerm(ctx, c, client) != nil {
			pause(ctx, c.Lease/15)
		}
	}
	return nil
}

func etcdTerm(ctx context.Context, c *Candidate, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(c.Lease.Seconds())))
	if err != nil {
		return err
	}
	defer session.Close()
	term, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(session.Ctx(), cancel)()
	e := concurrency.NewElection(session, "/compare")
	if err := e.Campaign(term, c.ID); err != nil {
		return err
	}
	c.Lead(term, uint64(e.Rev()), nil)
	return bounded(context.WithoutCancel(ctx), c.Lease/3, e.Resign)
}

type etcdServer struct {
	port, dir string
	cmd       *exec.Cmd
}

func etcd(t testing.TB) server {
	s := &etcdServer{port: strconv.Itoa(servertest.FreePort(t)), dir: t.TempDir()}
	s.Restart(t)
	t.Cleanup(s.Kill)
	return s
}

func (s *etcdServer) Restart(t testing.TB) {
	url, peer := "http://"+s.Addr(), "http://127.0.0.1:0"
	s.cmd = exec.Command("etcd", "--data-dir", s.dir+"/etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(s.cmd.Start())
	servertest.Eventually(t, 20*time.Second, "etcd is up", func() bool {
		conn, err := net.Dial("tcp", s.Addr())
		return err == nil && conn.Close() == nil
	})
}

func (s *etcdServer) Kill() {
	s.signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

func (s *etcdServer) Addr() string              { return "127.0.0.1:" + s.port }
func (s *etcdServer) Forget(testing.TB)         { check(os.RemoveAll(s.dir + "/etcd")) }
func (s *etcdServer) Hang(testing.TB)           { s.signal(syscall.SIGSTOP) }
func (s *etcdServer) Wake(testing.TB)           { s.signal(syscall.SIGCONT) }
func (s *etcdServer) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }
