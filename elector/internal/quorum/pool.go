package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	rsredis "github.com/go-redsync/redsync/v4/redis"
)

// The hashes of the scripts that redsync sends through a Conn. They stand for
// its operations; our own scripts do the work.
const (
	redsyncDelete = "e950836ed1e694540c503ef9972b8de518044d3b"
	redsyncTouch  = "d75bb8b5bd13532ddedd17762e772346e39b321e"
)

// pool is one node as redsync sees it. It keeps nothing: the round that a call
// belongs to comes with its context.
type pool struct{ node int }

// Get returns the connection of the round that ctx carries. It does no I/O.
func (p pool) Get(ctx context.Context) (rsredis.Conn, error) {
	r := roundOf(ctx)
	if r == nil {
		return nil, errors.New("quorum: a call outside of a round")
	}
	return conn{node: p.node, round: r}, nil
}

// conn answers redsync's operations by voting in a round.
type conn struct {
	node  int
	round *round
}

// SetNX is redsync's claim.
func (c conn) SetNX(string, string, time.Duration) (bool, error) {
	a := c.round.vote(c.node)
	if a.Status == Unknown {
		return false, a.Err
	}
	return a.Status == Won, nil
}

// Eval is redsync's extension, its release, or its clean-up after a claim that
// failed.
func (c conn) Eval(script *rsredis.Script, _ ...any) (any, error) {
	switch script.Hash {
	case redsyncTouch:
		a := c.round.vote(c.node)
		if a.Status == Unknown {
			return nil, a.Err
		}
		return flag(a.Status == Mine), nil
	case redsyncDelete:
		if c.round.claim {
			// The clean-up after a failed claim needs no network here: Claim gives
			// back what may have been granted, when all have answered.
			return flag(false), nil
		}
		a := c.round.vote(c.node)
		if a.Status == Unknown {
			return nil, a.Err
		}
		return flag(a.Status == Released), nil
	default:
		return nil, fmt.Errorf("quorum: redsync sent an unknown script %s: this version of redsync is not supported", script.Hash)
	}
}

func flag(ok bool) int64 {
	if ok {
		return 1
	}
	return 0
}

var errNotUsed = errors.New("quorum: redsync is not expected to call this")

func (conn) Get(string) (string, error)         { return "", errNotUsed }
func (conn) Set(string, string) (bool, error)   { return false, errNotUsed }
func (conn) ScriptLoad(*rsredis.Script) error   { return errNotUsed }
func (conn) PTTL(string) (time.Duration, error) { return 0, errNotUsed }
func (conn) Close() error                       { return nil }
