package nodes

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Do sends plain commands through a queue, in which the commands of a process for this node share a connection, and
// those that meet share a round trip, as when an operator looks at all elections. It blocks until they are answered,
// and returns the error of the first that failed, or until ctx, which must have a deadline, ends; then they must not
// be looked at any more. That a key does not exist is no error.
func (n *Node) Do(ctx context.Context, cmds ...redis.Cmder) error { return n.commands.do(ctx, cmds...) }

// commandsOverdue is how long a call keeps other commands waiting: its connection may be dead.
const commandsOverdue = 250 * time.Millisecond

// commands is the queue of plain commands for a node.
type commands struct {
	queue queue[*asked]
	node  *Node
}

// asked are commands that travel together.
type asked struct {
	ctx  context.Context //nolint:containedctx // of its caller: nothing is sent after its end
	cmds []redis.Cmder
	done chan struct{} // closed when they are answered
}

func newCommands(n *Node) *commands {
	c := &commands{node: n}
	c.queue.carry, c.queue.overdue = c.carry, commandsOverdue
	return c
}

func (c *commands) do(ctx context.Context, cmds ...redis.Cmder) error {
	a := &asked{ctx, cmds, make(chan struct{})}
	c.queue.add(a)
	select {
	case <-a.done:
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil && !rediserr.Missing(err) {
				return err
			}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry makes one call for those commands whose callers still wait, until the latest of their deadlines.
func (c *commands) carry(all []*asked) {
	c.node.open.ask(commandsOverdue / 2)
	p, until := c.node.rdb.Pipeline(), time.Time{}
	all = slices.DeleteFunc(all, func(a *asked) bool { return a.ctx.Err() != nil })
	for _, a := range all {
		for _, cmd := range a.cmds {
			_ = p.Process(a.ctx, cmd)
		}
		if at, _ := a.ctx.Deadline(); at.After(until) {
			until = at
		}
	}
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	cmds, err := p.Exec(ctx)
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) { // go-redis leaves them without one where the login failed
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	for _, a := range all {
		close(a.done)
	}
}
