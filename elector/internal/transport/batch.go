package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// nodeLink is the client of a node, with what is known of how batches can be sent to it.
type nodeLink struct {
	rdb          redis.UniversalClient
	pipelineOnly atomic.Bool // the node refused keys of several elections in one call: pipeline them
}

// alone sends a request that has met no other, on the goroutine of its caller.
func (w *nodeLink) alone(script protocol.ElectionScript, limit time.Duration, r *Request) Outcome {
	o := NotSent()
	if r.ctx.Err() != nil {
		return o
	}
	o.Sent = time.Now()
	with := r.args()
	if with == nil {
		o.Dropped = true
		return o
	}
	v, err := script.Run(conns.Bound(r.ctx, limit, r.wanted), w.rdb, r.keys, with...).Result()
	o.Took = time.Since(o.Sent)
	if errors.Is(err, conns.ErrUnwanted) {
		o.Dropped = r.ctx.Err() == nil
		return o
	}
	o.Answer = protocol.ParseReply(v, err, 0, 1, with)
	return o
}

// batch holds the requests of several elections that travel together, all for one script.
type batch struct {
	*nodeLink

	script   protocol.ElectionScript
	limit    time.Duration // for the answer
	master   *redis.Client // of the elections' slots, where the node is a Cluster
	requests []*Request
}

// carry sends the batch and ends each of its requests. If some are no longer wanted when there is a
// connection, nothing is sent: carry drops them and tries again with the others.
func (b *batch) carry(ctx context.Context) {
	for {
		b.requests = slices.DeleteFunc(b.requests, func(r *Request) bool { return !r.prepare() })
		if len(b.requests) == 0 || !b.call(conns.Bound(ctx, b.limit, b.commit), b.requests) {
			return
		}
	}
}

func (b *batch) commit(waited bool) bool {
	for _, r := range b.requests {
		if !r.commit(waited) {
			return false
		}
	}
	return true
}

// call sends requests to the node. again reports that requests were left unsent because some of the
// batch are no longer wanted.
func (b *batch) call(ctx context.Context, all []*Request) (again bool) {
	if len(all) > 1 && (b.master != nil || b.pipelineOnly.Load()) {
		return b.pipeline(ctx, all)
	}
	v, err := run(ctx, b.rdb, b.script, all)
	switch {
	case errors.Is(err, conns.ErrUnwanted):
		return true
	case len(all) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT"):
		b.pipelineOnly.Store(true)
		return b.pipeline(ctx, all)
	case len(all) > 1 && rediserr.Denied(err): // for the keys of some; the call has done nothing yet
		return b.pipeline(ctx, all)
	}
	for i, r := range all {
		r.end(Outcome{Answer: protocol.ParseReply(v, err, i, len(all), r.sentArgs)})
	}
	return false
}

// run sends all requests in one call.
func run(ctx context.Context, c redis.UniversalClient, script protocol.ElectionScript, all []*Request) (any, error) {
	if len(all) == 1 {
		return script.Run(ctx, c, all[0].keys, all[0].sentArgs...).Result()
	}
	return together(ctx, c, script, all)
}

// commands holds the argument slices of together for reuse: each has up to a thousand elements.
var commands = sync.Pool{New: func() any { return new([]any) }}

// together is Script.Run for several elections. Script.Run would allocate an interface for each key;
// go-redis also takes pointers to strings, which need no allocation.
func together(ctx context.Context, c redis.UniversalClient, s protocol.ElectionScript, all []*Request) (any, error) {
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
func (b *batch) pipeline(ctx context.Context, all []*Request) (again bool) {
	var c redis.Cmdable = b.rdb
	learn := func(error) {}
	if cluster, ok := b.rdb.(*redis.ClusterClient); ok {
		c, learn = b.master, func(err error) { slotMap{cluster}.learn(ctx, err) }
	}
	p := c.Pipeline()
	calls := make([]*redis.Cmd, len(all))
	for i, r := range all {
		calls[i] = b.script.EvalSha(ctx, p, r.keys, r.sentArgs...)
	}
	if _, err := p.Exec(ctx); errors.Is(err, conns.ErrUnwanted) {
		return true
	}
	var moved, unknown []*Request // whose slot has moved; whose script the server does not know
	for i, r := range all {
		v, err := calls[i].Result()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, r)
			continue
		case redis.HasErrorPrefix(err, "MOVED"), redis.HasErrorPrefix(err, "ASK"):
			moved = append(moved, r)
			continue
		}
		learn(err)
		r.end(Outcome{Answer: protocol.ParseReply(v, err, 0, 1, r.sentArgs)})
	}
	for _, r := range moved {
		if b.call(ctx, []*Request{r}) {
			return true
		}
	}
	switch {
	case len(unknown) == 0:
		return false
	case b.call(ctx, unknown[:1]):
		return true
	case len(unknown) == 1:
		return false
	default:
		return b.pipeline(ctx, unknown[1:])
	}
}
