package registry

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Cordon writes a cordon to every node, replacing any cordon of the same id, and announces it.
func Cordon(ctx context.Context, ns *quorum.Nodes, prefix string, c protocol.Cordon, limit time.Duration) []error {
	value, err := json.Marshal(c)
	if err != nil { // strings, and a time of this century
		panic("registry: a cordon that can't be encoded: " + err.Error())
	}
	key := protocol.CordonsKey(prefix)
	return ns.Each(ctx, limit, func(ctx context.Context, rdb redis.UniversalClient) error {
		if err := rdb.HSet(ctx, key, c.ID, value).Err(); err != nil {
			return rediserr.Needs(err, "+hset ~"+key)
		}
		return rediserr.Needs(rdb.Publish(ctx, key, c.ID).Err(), "+publish &"+key)
	})
}

// Uncordon ends a cordon on every node; ended reports whether a node had it.
func Uncordon(ctx context.Context, ns *quorum.Nodes, prefix, id string, limit time.Duration) (ended bool, errs []error) {
	var removed atomic.Int64
	key := protocol.CordonsKey(prefix)
	errs = ns.Each(ctx, limit, func(ctx context.Context, rdb redis.UniversalClient) error {
		n, err := rdb.HDel(ctx, key, id).Result()
		if err != nil {
			return rediserr.Needs(err, "+hdel ~"+key)
		}
		removed.Add(n)
		return rediserr.Needs(rdb.Publish(ctx, key, id).Err(), "+publish &"+key)
	})
	return removed.Load() > 0, errs
}

// CordonsOn reads the cordons of one node, by id.
func CordonsOn(ctx context.Context, ns *quorum.Nodes, node int, prefix string, limit time.Duration) (all map[string]protocol.Cordon, err error) {
	key := protocol.CordonsKey(prefix)
	err = ns.On(ctx, node, limit, func(ctx context.Context, rdb redis.UniversalClient) error {
		fields, err := rdb.HGetAll(ctx, key).Result()
		if err != nil {
			return rediserr.Needs(err, "+hgetall %R~"+key)
		}
		all = make(map[string]protocol.Cordon, len(fields))
		for id, value := range fields {
			if c, ok := protocol.ParseCordon(id, value); ok {
				all[id] = c
			}
		}
		return nil
	})
	return all, err
}
