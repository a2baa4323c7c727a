package registry

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// SetHighest sets the value of the version's key on every node.
func SetHighest(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, h protocol.Highest, limit time.Duration) []error {
	value := h.Encode()
	return ns.Each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return rediserr.Needs(c.Set(ctx, k.Version, value, 0).Err(), "+set ~"+k.Version)
	})
}
