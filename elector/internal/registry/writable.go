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

// trialLasts is how long the key of TryWrite stays.
const trialLasts = 100 * time.Millisecond

// checkKey is the one that examinations write: in the slot of the election, and within
// the rights of its candidates.
func checkKey(k protocol.Keys) string { return strings.TrimSuffix(k.Lock, "lock") + "check" }

// TryWrite writes a key that ends at once to every node, each at most for the limit: a node
// may be read, and refuse every write, for want of memory or of disk. The errors are in the
// order of the nodes; one that Denied knows proves nothing about other users.
func TryWrite(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, limit time.Duration) []error {
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return rediserr.Needs(c.Set(ctx, checkKey(k), "0", trialLasts).Err(), "+set ~"+checkKey(k))
	})
}
