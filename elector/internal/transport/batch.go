package transport

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// nodeLink is the client of a node, with what is known of how batches can be sent to it.
type nodeLink struct {
	rdb          redis.UniversalClient
	pipelineOnly atomic.Bool // the node refused keys of several elections in one call: pipeline them
}

// batch holds the requests of several elections that travel together, all for one script.
type batch struct {
	*nodeLink

	script   protocol.ElectionScript
	via      *redis.Client // bounds the time for the answer; where the node is a Cluster, of the slots' master
	cluster  bool
	requests []*Request
}

// carry sends the batch and ends each of its requests. Whether each is still wanted is checked once,
// when the call leaves: from then on the call may have to wait for its connection.
func (b *batch) carry(ctx context.Context) {
	b.requests = slices.DeleteFunc(b.requests, func(r *Request) bool { return !r.prepare() || !r.commit() })
	if len(b.requests) > 0 {
		b.call(ctx, b.requests)
	}
}

// call sends requests to the node.
func (b *batch) call(ctx context.Context, all []*Request) {
	if b.cluster || len(all) > 1 && b.pipelineOnly.Load() {
		b.pipeline(ctx, all)
		return
	}
	v, err := run(ctx, b.via, b.script, all)
	switch {
	case len(all) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT"):
		b.pipelineOnly.Store(true)
		b.pipeline(ctx, all)
		return
	case len(all) > 1 && rediserr.Denied(err): // for the keys of some; the call has done nothing yet
		b.pipeline(ctx, all)
		return
	}
	for i, r := range all {
		r.end(Outcome{Answer: protocol.ParseReply(v, err, i, len(all), r.sentArgs)})
	}
}

// run sends all requests in one call.
func run(ctx context.Context, c *redis.Client, script protocol.ElectionScript, all []*Request) (any, error) {
	if len(all) == 1 {
		return script.Run(ctx, c, all[0].keys, all[0].sentArgs...).Result()
	}
	return together(ctx, c, script, all)
}

// commands holds the argument slices of together for reuse: each has up to a thousand elements.
var commands = sync.Pool{New: func() any { return new([]any) }}

// together is Script.Run for several elections. Script.Run would allocate an interface for each key;
// go-redis also takes pointers to strings, which need no allocation.
func together(ctx context.Context, c *redis.Client, s protocol.ElectionScript, all []*Request) (any, error) {
	again := commands.Get().(*[]any)
	command := (*again)[:0]
	command = append(command, "evalsha", s.Hash(), len(all)*s.Keys)
	defer func() {
		clear(command)
		*again = command
		commands.Put(again)
	}()
	for _, r := range all {
		for i := range r.keys {
			command = append(command, &r.keys[i])
		}
	}
	for _, r := range all {
		command = append(command, r.sentArgs...)
	}
	v, err := c.Do(ctx, command...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		command[0], command[1] = "eval", s.Source
		v, err = c.Do(ctx, command...).Result()
	}
	return v, err
}

// pipeline makes one call per request, all in one round trip. A call that the server could not run
// is repeated on its own: go-redis then sends the script's source, or follows a moved slot.
func (b *batch) pipeline(ctx context.Context, all []*Request) {
	p := b.via.Pipeline()
	calls := make([]*redis.Cmd, len(all))
	for i, r := range all {
		calls[i] = b.script.EvalSha(ctx, p, r.keys, r.sentArgs...)
	}
	_, failed := p.Exec(ctx)
	for i, r := range all {
		v, err := calls[i].Result()
		if err == nil && v == nil { // there was no connection
			err = failed
		}
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			v, err = b.script.Run(ctx, b.via, r.keys, r.sentArgs...).Result()
		case redis.HasErrorPrefix(err, "MOVED"), redis.HasErrorPrefix(err, "ASK"):
			v, err = b.script.Run(ctx, b.rdb, r.keys, r.sentArgs...).Result()
		}
		if c, ok := b.rdb.(*redis.ClusterClient); ok {
			slotMap{c}.learn(ctx, err)
		}
		r.end(Outcome{Answer: protocol.ParseReply(v, err, 0, 1, r.sentArgs)})
	}
}
