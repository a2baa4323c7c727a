package demo

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// fencedWrite is the write of a resource that checks tokens.
const fencedWrite = `
if tonumber(redis.call('HGET', KEYS[1], 'token') or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 1`

const registerKey = "demo:register"

// write writes a leader's name under its token. It returns false if the write was refused.
func (c *cluster) write(ctx context.Context, o observation) (bool, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.nodes[0].Addr()})
	defer func() { _ = rdb.Close() }()
	n, err := rdb.Eval(ctx, fencedWrite, []string{registerKey}, o.token, o.who.name).Int()
	return n == 1, err
}

func (c *cluster) register(ctx context.Context) (string, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.nodes[0].Addr()})
	defer func() { _ = rdb.Close() }()
	return rdb.HGet(ctx, registerKey, "value").Result()
}
