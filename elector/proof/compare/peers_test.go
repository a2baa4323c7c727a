package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const key = "compare"

// lock is one that knows neither deadlines nor renewals.
type lock struct {
	try, extend, release func(context.Context) error
	patience             time.Duration // how long an extension may take, zero: L/3
	naive                bool          // no deadline
}

// errLost means that another candidate may have the lock.
var errLost = errors.New("lost")

// granted returns errLost unless the store has granted the lock, or may still do so.
func granted(yes bool, err error) error {
	if !yes {
		return errLost
	}
	return err
}

// loop is what a careful engineer writes around such a lock: by it the library is to be judged.
func loop(every time.Duration, open func(*Candidate) lock) func(context.Context, *Candidate) error {
	return func(ctx context.Context, c *Candidate) error {
		l := open(c)
		for ctx.Err() == nil {
			sent := time.Now()
			if bounded(ctx, lease/3, l.try) != nil {
				pause(ctx, time.Duration(float64(every)*(0.9+0.2*rand.Float64())))
				continue
			}
			l.lead(ctx, c, sent)
			_ = bounded(context.WithoutCancel(ctx), lease/3, l.release)
		}
		return nil
	}
}

func (l lock) lead(ctx context.Context, c *Candidate, sent time.Time) {
	term, cancel := context.WithCancel(ctx)
	defer cancel()
	var confirmed atomic.Pointer[time.Time]
	confirmed.Store(&sent)
	go func() {
		defer cancel()
		for wait := lease / 3; ; {
			pause(term, wait)
			sent := time.Now()
			switch err := bounded(term, cmp.Or(l.patience, lease/3), l.extend); {
			case term.Err() != nil || errors.Is(err, errLost):
				return
			case err != nil:
				wait = lease / 15
			default:
				confirmed.Store(&sent)
				wait = lease / 3
			}
		}
	}()
	c.Lead(term, 0, func() bool { return l.naive || time.Since(*confirmed.Load()) < lease*99/100 })
}

func bounded(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// client is go-redis without what makes a call longer than its context.
func (c *Candidate) client(i int) *goredislib.Client {
	if c.bySentinel() {
		return goredislib.NewFailoverClient(&goredislib.FailoverOptions{
			MasterName: master, SentinelAddrs: c.Addrs, ContextTimeoutEnabled: true, MaxRetries: -1,
		})
	}
	return goredislib.NewClient(&goredislib.Options{Addr: c.Addrs[i], ContextTimeoutEnabled: true, MaxRetries: -1})
}

func redsyncLock(c *Candidate) lock {
	var pools []redsyncredis.Pool
	for i := range c.Addrs {
		pools = append(pools, goredis.NewPool(c.client(i)))
	}
	m := redsync.New(pools...).NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1), redsync.WithFailFast(true))
	extend := func(ctx context.Context) error {
		_, err := m.ExtendContext(ctx)
		return granted(!errors.As(err, new(*redsync.ErrTaken)), err) // it is taken by a majority
	}
	release := func(ctx context.Context) error { return granted(m.UnlockContext(ctx)) }
	return lock{try: m.TryLockContext, extend: extend, release: release}
}

func redisLock(c *Candidate) lock {
	locker := redislock.New(c.client(0))
	var l *redislock.Lock
	try := func(ctx context.Context) (err error) {
		l, err = locker.Obtain(ctx, key, lease, nil)
		return err
	}
	extend := func(ctx context.Context) error {
		err := l.Refresh(ctx, lease, nil)
		return granted(!errors.Is(err, redislock.ErrNotObtained), err)
	}
	return lock{try: try, extend: extend, release: func(ctx context.Context) error { return l.Release(ctx) }}
}

// naiveLock is what many a program has. Its client does not heed the deadline of a call.
func naiveLock(c *Candidate) lock {
	client := goredislib.NewClient(&goredislib.Options{Addr: c.Addrs[0]})
	try := func(ctx context.Context) error { return granted(client.SetNX(ctx, key, c.ID, lease).Result()) }
	ifMine := func(do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			holder, err := client.Get(ctx, key).Result()
			if err == nil && holder == c.ID {
				return do(ctx)
			}
			return granted(err != nil && !errors.Is(err, goredislib.Nil), err)
		}
	}
	extend := ifMine(func(ctx context.Context) error { return client.PExpire(ctx, key, lease).Err() })
	release := ifMine(func(ctx context.Context) error { return client.Del(ctx, key).Err() })
	return lock{try: try, extend: extend, release: release, naive: true}
}

// advisoryLock is that of a session, which the server ends when no query has come for a lease.
func advisoryLock(c *Candidate) lock {
	url := fmt.Sprintf("postgres://mandate@%s/postgres?sslmode=disable&idle_session_timeout=%v", c.Addrs[0], lease)
	var conn *pgx.Conn
	try := func(ctx context.Context) (err error) {
		if conn == nil || conn.IsClosed() {
			if conn, err = pgx.Connect(ctx, url); err != nil {
				return err
			}
		}
		won := false
		err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(1)").Scan(&won)
		return granted(won, err)
	}
	extend := func(ctx context.Context) error { return granted(conn.Ping(ctx) == nil, nil) } // or the session has ended
	release := func(ctx context.Context) error { return conn.Close(ctx) }
	return lock{try: try, extend: extend, release: release, patience: lease * 2 / 3}
}

func rueidisLock(ctx context.Context, c *Candidate) error {
	client := rueidis.ClientOption{InitAddress: c.Addrs}
	if c.bySentinel() {
		client.Sentinel.MasterSet = master
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: client, KeyMajority: 1, KeyValidity: lease, NoLoopTracking: true, TryNextAfter: lease / 10,
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
	client := must(clientv3.New(clientv3.Config{Endpoints: c.Addrs, Logger: zap.NewNop()}))
	defer client.Close()
	for range 50 {
		must(client.Put(ctx, "/used", c.ID))
	}
	for ctx.Err() == nil {
		if etcdTerm(ctx, c, client) != nil {
			pause(ctx, lease/15)
		}
	}
	return nil
}

func etcdTerm(ctx context.Context, c *Candidate, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(lease.Seconds())))
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
	return bounded(context.WithoutCancel(ctx), lease/3, e.Resign)
}

func kubernetesLease(ctx context.Context, c *Candidate) error {
	config := &rest.Config{Host: c.Addrs[0], Timeout: lease / 3}
	config.ContentType = "application/json"
	lock := &resourcelock.LeaseLock{Client: must(coordinationv1client.NewForConfig(config))}
	lock.LeaseMeta.Namespace, lock.LeaseMeta.Name, lock.LockConfig.Identity = "default", key, c.ID
	callbacks := leaderelection.LeaderCallbacks{OnStoppedLeading: func() {}}
	callbacks.OnStartedLeading = func(ctx context.Context) { c.Lead(ctx, 0, nil) }
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: lease, RenewDeadline: lease * 2 / 3, RetryPeriod: lease * 2 / 15,
			ReleaseOnCancel: true, Callbacks: callbacks,
		})
	}
	return nil
}
