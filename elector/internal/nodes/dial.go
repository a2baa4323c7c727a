package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// ofGoRedis reports whether go-redis made the dialer, which gives an address two seconds before it tries the next one of
// the name. A user's own may find names elsewhere: it is kept.
func ofGoRedis(dial dialer) bool {
	return dial == nil || strings.HasPrefix(runtime.FuncForPC(reflect.ValueOf(dial).Pointer()).Name(), "github.com/redis/go-redis/v9.(*Options).init.")
}

// explaining makes the errors of a server that refuses connections show why.
func (n *Node) explaining(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		switch {
		case errors.Is(err, redis.Nil): // must not look like the answer that a key does not exist
			return nil, errors.New("the sentinels know no master named so")
		case err != nil:
			return nil, err
		}
		return rediserr.Explained(c, &n.received), nil
	}
}

// leaving closes the connections of a node that must not be used any more. Those to a former master as soon as the
// sentinels name another one: a master that hung while another one was promoted, and that runs again, grants and loses
// locks on its own until it learns that it is a replica. (go-redis does this only for its own failover clients.)
type leaving struct {
	dial     dialer
	sentinel bool            // sentinels name the master
	life     context.Context // of the connections
	end      func()          // of life

	mu    sync.Mutex // guards what follows
	begun uint64     // connections begun so far
	at    uint64     // the newest one that was made
	addr  string     // where that one leads to
	open  map[*connection]bool
	asked time.Time     // when ask last queried the sentinels
	took  time.Duration // how long that query took, whatever its outcome
	named chan struct{} // closed when it has ended; nil: no query is under way
}

const (
	askEvery = 100 * time.Millisecond // for all elections of the process
	askLimit = 30 * time.Second       // go-redis may need this long to give up a sentinel that hangs
)

// ask has go-redis ask the sentinels for the master, which it does for each new connection, and so leaves a former master. A
// former master whose replica was promoted as planned serves for ten seconds more: a leader would renew there until the lock
// on the new one has expired, and a follower claim there when the leader has left. ask waits for the answer, unless the last
// one took longer than wait: sentinels that hang or are far must not delay the requests to a healthy master.
func (l *leaving) ask(wait time.Duration) {
	if !l.sentinel {
		return
	}
	l.mu.Lock()
	if l.named == nil && time.Since(l.asked) < askEvery {
		l.mu.Unlock()
		return
	}
	if l.named == nil {
		l.asked, l.named = time.Now(), make(chan struct{})
		go l.askNow(l.named)
	}
	named, slow, left := l.named, l.took > wait, wait-time.Since(l.asked)
	l.mu.Unlock()
	if slow || left <= 0 {
		return
	}
	select {
	case <-named:
	case <-time.After(left):
	}
}

func (l *leaving) askNow(named chan struct{}) {
	ctx, cancel := context.WithTimeout(l.life, askLimit)
	defer cancel()
	if c, err := l.connect(ctx, "tcp", ""); err == nil { // without an answer the connections that there are may still do
		_ = c.Close()
	}
	l.mu.Lock()
	l.took, l.named = time.Since(l.asked), nil
	l.mu.Unlock()
	close(named)
}

var errFormerMaster = errors.New("quorum: the connection leads to a former master")

// connection is one that leaving may close.
type connection struct {
	net.Conn

	of *leaving
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// toCheck is a connection of which go-redis can see that the server has closed it.
type toCheck struct {
	*connection
	syscall.Conn
}

func (l *leaving) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	l.begun++
	number := l.begun
	l.mu.Unlock()
	raw, err := l.dial(ctx, network, addr)
	if _, dialed := err.(*net.OpError); dialed && l.sentinel { //nolint:errorlint // those of the sentinels have such errors inside
		return nil, fmt.Errorf("%s: %w", rediserr.NamedBySentinels, err)
	}
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: raw, of: l}
	former, ok := l.arrive(c, number)
	for _, f := range former {
		_ = f.Close()
	}
	if !ok {
		return nil, errors.Join(errFormerMaster, raw.Close())
	}
	if check, ok := raw.(syscall.Conn); ok {
		return toCheck{c, check}, nil
	}
	return c, nil
}

// arrive adds a connection, and returns those that lead to a former master. ok is false if this one
// does: it was begun before one that leads elsewhere.
func (l *leaving) arrive(c *connection, number uint64) (former []*connection, ok bool) {
	to := c.RemoteAddr().String()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sentinel && to != l.addr {
		if number < l.at {
			return nil, false
		}
		former = slices.Collect(maps.Keys(l.open))
		l.addr = to
	}
	l.at = max(l.at, number)
	l.open[c] = true
	return former, true
}

// leave closes all connections.
func (l *leaving) leave() {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// several is when an address was last seen to lead to several servers, and to which.
type several struct {
	at  time.Time
	ids []string
}

// Suspect notes that the node's address has led to several servers, with these identities.
func (n *Node) Suspect(ids []string, lasts time.Duration) {
	if n.Suspected(lasts) == nil { // its name may have moved: old connections must not keep this process there
		n.open.leave()
	}
	n.several.Store(&several{time.Now(), slices.Sorted(slices.Values(ids))})
}

// Suspected returns why a node has no vote: an election of this process has suspected it for less time than that; nil: none has.
func (n *Node) Suspected(lasts time.Duration) error {
	s := n.several.Load()
	if s == nil || time.Since(s.at) >= lasts {
		return nil
	}
	return rediserr.Refusal(fmt.Sprintf("leads to several servers (identities %s): give the address of one, unless the name has moved within a lease", strings.Join(s.ids, ", ")))
}

// CheckDue reports whether no election of this process has begun to check the node's address within that time; one does now.
func (n *Node) CheckDue(within time.Duration) bool {
	now, last := time.Now(), n.checked.Load()
	return (last == nil || now.Sub(*last) >= within) && n.checked.CompareAndSwap(last, &now)
}

// Reconnect calls read with new connections, one after the other, and then with one of those for requests: that may lead
// to one server where the address leads to several. Not for a Cluster, whose servers it finds by their own addresses.
func (n *Node) Reconnect(read func(*redis.Client)) {
	c, ok := n.rdb.(*redis.Client)
	if !ok {
		return
	}
	for range 3 {
		o := *c.Options()
		fresh := redis.NewClient(&o)
		read(fresh)
		_ = fresh.Close()
	}
	read(c)
}

// hook is called with the end of each command, and of each pipeline (cmd is nil: where no connection could be made, its
// commands have no error). It returns the error that the caller gets.
type hook func(ctx context.Context, cmd redis.Cmder, err error) error

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h(ctx, cmd, next(ctx, cmd)) }
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			_ = h(ctx, cmd, cmd.Err())
		}
		return h(ctx, nil, err)
	}
}

// DialHook changes nothing.
func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// OfCluster prepares the client of one server of a Cluster. Of an address that the server hides, go-redis would report
// what it reports of a key that does not exist.
func OfCluster(c *redis.Client) *redis.Client {
	c.AddHook(hook(func(_ context.Context, cmd redis.Cmder, err error) error {
		if _, slots := cmd.(*redis.ClusterSlotsCmd); slots && errors.Is(err, redis.Nil) {
			return errors.New(rediserr.HiddenAddresses)
		}
		return err
	}))
	return c
}

// slotMap keeps a Cluster client's map of slots fresh. go-redis itself reloads the map
// only when a node redirects, and once a minute. A dead master redirects no
// client, so without slotMap an election would query it long after its replica was
// promoted.
type slotMap struct{ c *redis.ClusterClient }

// learn requests a reload when a request got no answer, or none that a
// healthy Cluster gives. go-redis reloads the map in the background, one reload at
// a time and at most five times a second.
func (m slotMap) learn(ctx context.Context, err error) {
	if err != nil && (!errors.As(err, new(redis.Error)) || redis.IsClusterDownError(err) || redis.IsReadOnlyError(err)) {
		m.c.ReloadState(ctx)
	}
}
