package quorum

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// slotMap keeps a Cluster client's map of slots fresh. go-redis itself reloads the
// map only when a node redirects, and once a minute. A dead master redirects no
// client, so without slotMap an election would query it long after its replica was
// promoted.
type slotMap struct{ c *redis.ClusterClient }

// keepSlotsFresh makes a Cluster client reload its map of slots when a request shows that the map may
// be outdated.
func keepSlotsFresh(c *redis.ClusterClient) { c.AddHook(slotMap{c}) }

// ProcessHook requests a reload when a request got no answer, or none that a
// healthy Cluster gives. go-redis reloads the map in the background, one reload at
// a time and at most five times a second.
func (m slotMap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		m.learn(ctx, err)
		return err
	}
}

// ProcessPipelineHook does the same for a pipeline.
func (m slotMap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		m.learn(ctx, err) // if no connection could be made, the commands have no error
		for _, cmd := range cmds {
			m.learn(ctx, cmd.Err())
		}
		return err
	}
}

func (m slotMap) learn(ctx context.Context, err error) {
	var answer redis.Error
	if err != nil && (!errors.As(err, &answer) || redis.IsClusterDownError(err) || redis.IsReadOnlyError(err)) {
		m.c.ReloadState(ctx)
	}
}

// DialHook changes nothing.
func (slotMap) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}
