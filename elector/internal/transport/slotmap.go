package transport

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// slotMap keeps a Cluster client's map of slots fresh. By itself go-redis reads
// it anew when a node redirects, and once a minute: a dead master redirects
// no client, so without this an election would ask it long after its replica was
// promoted.
type slotMap struct{ c *redis.ClusterClient }

// KeepSlotsFresh has a Cluster's client read the map anew when a request shows that it may be old.
func KeepSlotsFresh(c *redis.ClusterClient) { c.AddHook(slotMap{c}) }

// ProcessHook asks for the map when a request got no answer, or none that a
// healthy Cluster gives. go-redis reads it in the background, one at a time and
// at most five times a second.
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
		m.learn(ctx, err) // that no connection could be made is no command's error
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
