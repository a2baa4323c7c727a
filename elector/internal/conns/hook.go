package conns

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnwanted is the error of a request that was not sent because it was no longer wanted when
// there was a connection for it.
var ErrUnwanted = errors.New("conns: not sent: the request was not wanted any more")

type boundKey struct{}

type bound struct {
	answer time.Duration
	wanted func(waited bool) bool
}

// Bound limits the time for the answer to each request under the returned context, counted from
// when the request is sent; ctx itself bounds the total, including the wait for a connection.
// wanted, unless nil, is called when there is a connection, just before the request is sent: if it
// returns false, the request fails with ErrUnwanted. waited tells it whether the request had to
// wait for the connection.
func Bound(ctx context.Context, answer time.Duration, wanted func(waited bool) bool) context.Context {
	return context.WithValue(ctx, boundKey{}, bound{answer, wanted})
}

func (p *Pool) do(ctx context.Context, send func(context.Context, sender) error) error {
	b, bounded := ctx.Value(boundKey{}).(bound)
	for again := false; ; again = true {
		c, waited, err := p.take(ctx)
		if err != nil {
			return err
		}
		if b.wanted != nil && !b.wanted(waited || again) {
			p.release(c, nil)
			return ErrUnwanted
		}
		once := ctx
		if bounded {
			once = answering{ctx, time.Now().Add(b.answer)}
		}
		err = send(once, c.via)
		if errors.Is(err, errNoRedial) { // nothing was sent
			p.drop(c, err)
			continue
		}
		p.release(c, err)
		return err
	}
}

// Hook sends the requests of a client through the pool. Subscriptions still use connections of
// the client's own.
type Hook struct {
	*Pool

	// OwnPipelines leaves pipelines to the client, except for those under a Bound: a Cluster client
	// reads the redirections of its pipelines from its own connections.
	OwnPipelines bool
}

// greeting reports whether go-redis sends a command when it makes a connection of the client's
// own, such as for a subscription. These commands pass the client's hooks, too, and must be sent
// on the connection that is being made.
func greeting(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "select", "client", "readonly":
		return true
	}
	return false
}

// ProcessHook sends one command.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if greeting(cmd) {
			return next(ctx, cmd)
		}
		return h.do(ctx, func(ctx context.Context, s sender) error { return s.Process(ctx, cmd) })
	}
}

// ProcessPipelineHook sends a pipeline. There are no transactions here.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_, bounded := ctx.Value(boundKey{}).(bound)
		if h.OwnPipelines && !bounded || len(cmds) > 0 && greeting(cmds[0]) {
			return next(ctx, cmds)
		}
		if len(cmds) > 0 && cmds[0].Name() == "multi" {
			return errors.New("conns: transactions are not supported")
		}
		sent := false
		err := h.do(ctx, func(ctx context.Context, s sender) error {
			pipe := s.Pipeline()
			for _, cmd := range cmds {
				_ = pipe.Process(ctx, cmd) // queues it
			}
			_, err := pipe.Exec(ctx)
			sent = !errors.Is(err, errNoRedial)
			return err
		})
		if !sent { // the commands have no error yet, or that of an earlier try
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// DialHook changes nothing.
func (Hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}
