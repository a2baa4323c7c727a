package quorum

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// SetHighest has every node keep it.
func (ns *Nodes) SetHighest(ctx context.Context, k Keys, h Highest, limit time.Duration) []error {
	value := h.encode()
	return ns.each(ctx, limit, func(ctx context.Context, c redis.UniversalClient) error {
		return needs(c.Set(ctx, k.Version, value, 0).Err(), "+set ~"+k.Version)
	})
}
