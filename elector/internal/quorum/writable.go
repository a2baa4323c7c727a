package quorum

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// trialLasts is how long the key of TryWrite stays.
const trialLasts = 100 * time.Millisecond

// checkKey is the one that examinations write: in the slot of the election, and within
// the rights of its candidates.
func checkKey(k Keys) string { return strings.TrimSuffix(k.Lock, "lock") + "check" }

// TryWrite writes a key that ends at once to every node, each at most for the limit: a node
// may be read, and refuse every write, for want of memory or of disk. The errors are in the
// order of the nodes; one that Denied knows proves nothing about other users.
func (ns *Nodes) TryWrite(ctx context.Context, k Keys, limit time.Duration) []error {
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return needs(c.Set(ctx, checkKey(k), "0", trialLasts).Err(), "+set ~"+checkKey(k))
	})
}
