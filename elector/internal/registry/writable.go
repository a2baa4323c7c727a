package registry

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// trialLasts is how long the key that TryWrite writes lives.
const trialLasts = 100 * time.Millisecond

// checkKey returns the key that Inspect and TryWrite write: in the slot of the election, and
// within the rights of its candidates.
func checkKey(k protocol.Keys) string { return strings.TrimSuffix(k.Lock, "lock") + "check" }

// TryWrite writes a short-lived key to every node, and waits at most limit for each: a node that
// can be read may still refuse every write, for want of memory or disk. The errors are by
// node. An error for which rediserr.Denied is true proves nothing about other users.
func TryWrite(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit time.Duration) []error {
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return rediserr.Needs(c.Set(ctx, checkKey(k), "0", trialLasts).Err(), "+set ~"+checkKey(k))
	})
}
