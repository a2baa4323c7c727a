package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
)

// redlock decides one claim on several nodes by redsync, through its documented extension point: a pool
// and a connection for each node. Its claim on a node sends that node's request, by a script of ours, and
// waits until the claim's goroutine has passed on the vote. Its clean-up after a lost claim is not sent:
// Claim gives back what was granted, also by nodes that answer later.
type redlock struct {
	nodes []ballot
	mutex *redsync.Mutex
}

type ballot struct {
	cast func()    // sends the request
	won  chan bool // gets the vote; closed: there is none in time
}

// newRedlock returns the decision of one attempt, which redsync tries once: the state machine retries.
func newRedlock(key, value string, lease time.Duration, cast []func()) *redlock {
	l := &redlock{}
	var pools []rsredis.Pool
	for _, f := range cast {
		b := ballot{f, make(chan bool, 1)}
		l.nodes, pools = append(l.nodes, b), append(pools, pool{b})
	}
	l.mutex = redsync.New(pools...).NewMutex(key, redsync.WithExpiry(lease), redsync.WithFailFast(true),
		redsync.WithGenValueFunc(func() (string, error) { return value, nil }))
	return l
}

// claim makes all nodes vote. count passes on their votes, as far as they come in time.
func (l *redlock) claim(ctx context.Context, count func(vote func(node int, won bool))) bool {
	decided := make(chan error, 1)
	go func() { decided <- l.mutex.TryLockContext(ctx) }()
	count(func(node int, won bool) { l.nodes[node].won <- won })
	for _, b := range l.nodes {
		close(b.won)
	}
	return <-decided == nil
}

type pool struct{ node ballot }

// Get returns the connection. It does no I/O.
func (p pool) Get(context.Context) (rsredis.Conn, error) { return conn(p), nil }

type conn struct{ node ballot }

// SetNX is redsync's claim.
func (c conn) SetNX(string, string, time.Duration) (bool, error) {
	c.node.cast()
	return <-c.node.won, nil
}

// Eval is redsync's clean-up.
func (conn) Eval(*rsredis.Script, ...any) (any, error) { return int64(0), nil }

var errNotUsed = errors.New("quorum: redsync is not expected to call this")

func (conn) Get(string) (string, error)         { return "", errNotUsed }
func (conn) Set(string, string) (bool, error)   { return false, errNotUsed }
func (conn) ScriptLoad(*rsredis.Script) error   { return errNotUsed }
func (conn) PTTL(string) (time.Duration, error) { return 0, errNotUsed }
func (conn) Close() error                       { return nil }
