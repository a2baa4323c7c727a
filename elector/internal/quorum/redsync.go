package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// All code that concerns redsync is here. redsync decides claims on several nodes, through its
// documented extension point: a Pool and a Conn for each node. Its own commands are not sent. Its
// first operation on a node runs that node's vote, by a script of ours. A second operation is its
// clean-up after a failed claim, which needs no network: Claim gives back what may have been granted
// once all nodes have answered. Renewals and releases need no decision by redsync: which node answered
// what (Tally) decides, which saves redsync's goroutines.
//
// So an operation is recognized by its place in the round, whatever script a version of
// redsync uses for it; redsyncWorks checks this against the version that is linked.

// redlock is redsync's mutex for one attempt.
type redlock struct {
	mutex interface{ TryLockContext(context.Context) error }
}

// newRedlock returns the mutex of an attempt, which redsync tries once: the state machine retries.
func newRedlock(nodes int, key, value string, expiry time.Duration) redlock {
	var pools []rsredis.Pool
	for i := range nodes {
		pools = append(pools, pool{node: i})
	}
	return redlock{redsync.New(pools...).NewMutex(key,
		redsync.WithExpiry(expiry), redsync.WithTries(1), redsync.WithFailFast(true),
		redsync.WithGenValueFunc(func() (string, error) { return value, nil }))}
}

// claim makes all nodes vote. The error means that no majority granted the claim.
func (l redlock) claim(ctx context.Context, r *round) error {
	return l.mutex.TryLockContext(r.in(ctx))
}

// redsyncRound is a round on its way through redsync.
type redsyncRound struct {
	*round

	mu    sync.Mutex
	voted map[int]bool
}

// first reports whether the node has not voted in this round yet, and marks it as having voted.
func (r *redsyncRound) first(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.voted[node]
	r.voted[node] = true
	return first
}

type roundKey struct{}

// in returns a context that passes the round to our connections: a late operation of an
// earlier attempt then still finds its own round.
func (r *round) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, roundKey{}, &redsyncRound{round: r, voted: map[int]bool{}})
}

// pool stands for one node. It has no state: the context of a call carries the round that
// the call belongs to.
type pool struct{ node int }

// Get returns the connection of the round that ctx carries. It does no I/O.
func (p pool) Get(ctx context.Context) (rsredis.Conn, error) {
	r, _ := ctx.Value(roundKey{}).(*redsyncRound)
	if r == nil {
		return nil, errors.New("quorum: redsync made a call outside of a round")
	}
	return conn{node: p.node, round: r}, nil
}

// conn answers redsync's operations by voting in a round.
type conn struct {
	node  int
	round *redsyncRound
}

func (c conn) operate() (ok bool, err error) {
	if !c.round.first(c.node) {
		return false, nil
	}
	a := c.round.vote(c.node)
	if a.Status == protocol.Unknown {
		return false, a.Err
	}
	return a.Status == protocol.Won, nil
}

// SetNX takes redsync's claim.
func (c conn) SetNX(string, string, time.Duration) (bool, error) { return c.operate() }

// Eval takes redsync's clean-up.
func (c conn) Eval(*rsredis.Script, ...any) (any, error) {
	ok, err := c.operate()
	if err != nil {
		return nil, err
	}
	if ok {
		return int64(1), nil
	}
	return int64(0), nil
}

var errNotUsed = errors.New("quorum: redsync is not expected to call this")

func (conn) Get(string) (string, error)         { return "", errNotUsed }
func (conn) Set(string, string) (bool, error)   { return false, errNotUsed }
func (conn) ScriptLoad(*rsredis.Script) error   { return errNotUsed }
func (conn) PTTL(string) (time.Duration, error) { return 0, errNotUsed }
func (conn) Close() error                       { return nil }

// checkRedsync checks once whether the version of redsync that is linked works.
var checkRedsync = sync.OnceValue(func() error {
	return redsyncWorks(func() redlock { return newRedlock(3, "key", "value", time.Minute) })
})

// redsyncWorks makes attempts claim, without any network: each must query every node exactly
// once, and succeed or fail according to the votes.
func redsyncWorks(attempt func() redlock) error {
	const nodes = 3
	through := func(what string, answer protocol.Status, run func(*round) error) error {
		var mu sync.Mutex
		asked := map[int]int{}
		r := newRound(nodes, nodes/2+1, protocol.Won, func(node int) protocol.Answer {
			mu.Lock()
			defer mu.Unlock()
			asked[node]++
			return protocol.Answer{Status: answer}
		})
		if err := run(r); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-r.complete: // redsync does not wait for the last node once a majority has answered
		case <-timer.C:
		}
		mu.Lock()
		defer mu.Unlock()
		for node := range nodes {
			if asked[node] != 1 {
				return fmt.Errorf("%s: node %d is asked %d times, not once", what, node+1, asked[node])
			}
		}
		return nil
	}
	err := errors.Join(
		through("claim", protocol.Won, func(r *round) error { return attempt().claim(context.Background(), r) }),
		through("claim that is lost", protocol.Held, func(r *round) error {
			if attempt().claim(context.Background(), r) == nil {
				return errors.New("it is taken for won")
			}
			return nil
		}))
	if err != nil {
		return fmt.Errorf("this version of redsync can't be used: %w", err)
	}
	return nil
}
