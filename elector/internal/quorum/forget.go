package quorum

import (
	"context"
	_ "embed" // the script
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/forget.lua
var forgetLua string

var forgetScript = redis.NewScript(forgetLua)

// ErrHeld is the error of a node that holds a lock, so it keeps what it knows of the election.
var ErrHeld = errors.New("the lock is held")

func (k Keys) forForget() []string {
	return []string{k.Lock, k.Fence, k.New, k.Pause, k.Heir, k.ID, k.History, k.Version}
}

// Forget removes all keys of an election, on each node in one step with the check that no
// lock is held there. The errors are by node; ErrHeld for one that is left as it was.
func (ns *Nodes) Forget(ctx context.Context, k Keys, limit time.Duration) []error {
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		removed, err := forgetScript.Run(ctx, c, k.forForget()).Int()
		switch {
		case err != nil:
			return needs(err, "+eval +evalsha +get +del ~"+k.Lock+" and the other keys")
		case removed == 0:
			return ErrHeld
		default:
			return nil
		}
	})
}
