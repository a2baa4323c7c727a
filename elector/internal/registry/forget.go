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

// ErrHeld is the error of a node that holds a lock and therefore keeps the keys of the election.
var ErrHeld = errors.New("the lock is held")

// Forget removes all keys of an election. On each node, one script checks that no lock is held
// there and removes the keys. The errors are by node; ErrHeld: the node was left unchanged.
func Forget(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit time.Duration) []error {
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		removed, err := protocol.ForgetScript.Run(ctx, c, k.ForgetKeys()).Int()
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
