package registry

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// ErrHeld is the error of a node that holds a lock, so it keeps what it knows of the election.
var ErrHeld = errors.New("the lock is held")

// Forget removes all keys of an election, on each node in one step with the check that no
// lock is held there. The errors are by node; ErrHeld for one that is left as it was.
func Forget(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit time.Duration) []error {
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		removed, err := protocol.ForgetScript.Run(ctx, c, k.ForForget()).Int()
		switch {
		case err != nil:
			return rediserr.Needs(err, "+eval +evalsha +get +del ~"+k.Lock+" and the other keys")
		case removed == 0:
			return ErrHeld
		default:
			return nil
		}
	})
}
