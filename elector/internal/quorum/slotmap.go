package quorum

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// slotMap keeps a Cluster client's map of slots fresh. By itself go-redis reads
// it anew when a node redirects, and once a minute: a dead master redirects
// nobody, so without this an election would ask it long after its replica was
// promoted.
type slotMap struct{ c *redis.ClusterClient }

// ProcessHook asks for the map when a request got no answer, or none that a
// healthy Cluster gives. go-redis reads it in the background, one at a time and
// at most five times a second.
func (m slotMap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		var answer redis.Error
		if err != nil && (!errors.As(err, &answer) || redis.IsClusterDownError(err) || redis.IsReadOnlyError(err)) {
			m.c.ReloadState(ctx)
		}
		return err
	}
}

// ProcessPipelineHook changes nothing: an election sends no pipelines.
func (slotMap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// DialHook changes nothing.
func (slotMap) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}
