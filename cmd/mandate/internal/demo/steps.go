package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector/fence"
)

// step is one step of the demo.
type step struct {
	title string
	play  func(context.Context, *cluster) error
}

func steps() []step {
	return []step{
		{"Three candidates campaign: one is elected", elect},
		{"The leader resigns: a planned handover", handOver},
		{"The leader's work hangs, but its process is alive", hangWork},
		{"One of the three Redis nodes hangs: no effect", hangNode},
		{"The leader is cut off without releasing the lock", cutOff},
		{"The former leader returns and writes with its old token", staleWrite},
	}
}

// elect starts the candidates and waits for the first leader.
func elect(ctx context.Context, c *cluster) error {
	began := time.Now()
	c.start()
	first, err := c.seen.await(ctx, func(o observation) bool { return o.kind == workStarted })
	if err != nil {
		return err
	}
	c.leader = first
	c.note("elected after %s; the others wait", output.Brief(first.at.Sub(began)))
	return nil
}

// handOver makes the leader resign, and measures the time between the end of its work and the start
// of the next leader's.
func handOver(ctx context.Context, c *cluster) error {
	old := c.leader
	c.report(old.who, "resigns: its work stops, then it releases the lock")
	if err := old.who.elector.Resign(ctx); err != nil {
		return err
	}
	stopped, next, err := c.succession(ctx, old)
	if err != nil {
		return err
	}
	c.note("no candidate worked for %s, and never two at the same time", output.Brief(next.at.Sub(stopped.at)))
	return nil
}

// hangWork makes the leader's work stop beating its heartbeat.
func hangWork(ctx context.Context, c *cluster) error {
	old := c.leader
	old.who.hung.Store(true)
	at := time.Now()
	c.report(old.who, "'s work hangs. Its process is alive and could renew forever")
	detected, err := c.seen.await(ctx, func(o observation) bool { return o.kind == workCanceled && o.token == old.token })
	if err != nil {
		return err
	}
	_, next, err := c.succession(ctx, old)
	if err != nil {
		return err
	}
	c.note("detected after %s (bound: %v),", output.Brief(detected.at.Sub(at)), beatBound)
	c.note("the next one led after %s: no lease had to expire", output.Brief(next.at.Sub(at)))
	return nil
}

// hangNode makes one Redis node accept requests without answering, for a few renewals.
func hangNode(ctx context.Context, c *cluster) error {
	const during, renewed = 1800 * time.Millisecond, 2
	lead := c.leader
	term := lead.who.elector.Term()
	if term == nil {
		return errors.New("there is no leader")
	}
	unhang := c.hang(2)
	defer unhang()
	c.note("node 3 accepts connections but does not answer, for %v", during)
	before, renewals := lead.who.elector.Stats().Renewals.Confirmed, uint64(0)
	began := time.Now()
	for (time.Since(began) < during || renewals < renewed && time.Since(began) < stepTimeout) && ctx.Err() == nil {
		pause(ctx, 5*time.Millisecond)
		if !term.Valid() {
			<-term.Done() // a timer sets the reason, perhaps a moment later
			return fmt.Errorf("the leader lost its term: %w", term.Err())
		}
		renewals = lead.who.elector.Stats().Renewals.Confirmed - before
	}
	if renewals < renewed {
		return fmt.Errorf("only %d renewals in %v", renewals, stepTimeout)
	}
	c.report(lead.who, fmt.Sprintf("remained leader: %d renewals on the other two nodes", renewals))
	return nil
}

// cutOff closes all connections of the leader and prevents new ones, so that it seems dead to the
// other candidates. It must stop by its own clock before its lease ends.
func cutOff(ctx context.Context, c *cluster) error {
	old := c.leader
	old.who.link.cut()
	c.report(old.who, "loses all its connections and cannot release the lock")
	other := c.candidates[(slices.Index(c.candidates, old.who)+1)%len(c.candidates)]
	st, err := other.elector.Election().Status(ctx)
	if err != nil || st.Leader == nil {
		return errors.Join(errors.New("the lock was gone too early"), err)
	}
	end := time.Now().Add(st.Leader.LeaseLeft)
	c.note("its lease has %s left in Redis: the others must wait", output.Brief(st.Leader.LeaseLeft))
	stopped, next, err := c.succession(ctx, old)
	if err != nil {
		return err
	}
	early, late := end.Sub(stopped.at), next.at.Sub(end)
	c.note("it stopped on its own clock, %s before its lease ended,", output.Brief(early))
	c.note("the next leader followed %s after that", output.Brief(max(0, late)))
	if early <= 0 {
		return errors.New("the old leader worked beyond its lease")
	}
	return nil
}

// registered is the write of a resource that checks tokens.
var registered = fence.NewScript("return redis.call('SET', KEYS[1], ARGV[1])")

// staleWrite shows what the token is for: it refuses a write of a former leader that arrives late.
func staleWrite(ctx context.Context, c *cluster) error {
	old, now := c.before, c.leader
	old.who.link.restore()
	rdb := redis.NewClient(&redis.Options{Addr: c.nodes[0].Addr()})
	defer func() { _ = rdb.Close() }()
	register, err := fence.NewRedis(rdb, "demo:mark")
	if err != nil {
		return err
	}
	write := func(o observation) error {
		return register.Run(ctx, o.token, registered, []string{"demo:register"}, o.who.name).Err()
	}
	if err := write(now); err != nil {
		return fmt.Errorf("the leader's write: %w", err)
	}
	c.report(now.who, fmt.Sprintf("writes with token %d: accepted", now.token))
	switch err := write(old); {
	case err == nil:
		return fmt.Errorf("%w: the old leader's write was accepted", errBroken)
	case !errors.Is(err, fence.ErrStale):
		return err
	}
	c.report(old.who, fmt.Sprintf("writes with token %d: refused, a smaller one", old.token))
	if value, err := rdb.Get(ctx, "demo:register").Result(); err != nil || value != now.who.name {
		return errors.Join(fmt.Errorf("the register holds %q", value), err)
	}
	c.note("the register still holds what %s wrote", now.who.name)
	return nil
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
