package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/examples/internal/children"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// demo runs everything on one machine without any server: three workers as processes, an embedded
// Redis, SQLite. The leader hangs, and its successor is killed.
func demo(ctx context.Context, out io.Writer) error {
	return children.Demo(ctx, func(dir, redis string) error {
		c, err := newCrew(ctx, out, dir, filepath.Join(dir, "legacy.db"), redis)
		if err != nil {
			return err
		}
		defer c.close()
		return c.play(ctx)
	})
}

func (c *crew) play(ctx context.Context) error {
	c.Printf("three workers; the legacy application writes 60 events a second, some late")
	err := errors.Join(c.Start("shop", "produce", "--rate", "60"), c.worker("worker-1", "--hang-after", "3s"))
	if err != nil {
		return err
	}
	first, err := c.leaderAfter(ctx, 0)
	if err != nil {
		return err
	}
	c.Printf("in 3 s its polling hangs; its process lives on, and could renew for ever")
	if err := errors.Join(c.worker("worker-2"), c.worker("worker-3")); err != nil {
		return err
	}
	second, err := c.leaderAfter(ctx, first.Token)
	if err != nil {
		return err
	}
	cli.Pause(ctx, 2*time.Second)
	c.Printf("%s is killed (-9): it releases nothing, so its lease must expire", second.Candidate)
	if err := c.End(second.Candidate, syscall.SIGKILL); err != nil {
		return err
	}
	if _, err := c.leaderAfter(ctx, second.Token); err != nil {
		return err
	}
	cli.Pause(ctx, 2*time.Second)
	c.Printf("the legacy application stops; is everything handled, and once?")
	return c.verify(ctx)
}

// crew is the processes, and observes the election from outside.
type crew struct {
	*children.Crew
	db     *database
	redis  string
	quorum *elector.Quorum
}

const demoLease = 2 * time.Second

func newCrew(ctx context.Context, out io.Writer, dir, where, redis string) (*crew, error) {
	c := &crew{Crew: children.New(out, dir, "--db", where, "--redis", redis), redis: redis}
	var err error
	if c.quorum, err = elector.Open(redis); err == nil {
		c.db, err = openDatabase(ctx, where)
	}
	return c, err
}

func (c *crew) close() {
	c.Kill()
	c.db.Close()
	c.quorum.Close()
}

func (c *crew) worker(id string, more ...string) error {
	return c.Start(id, "work", append(more, "--id", id, "--lease", demoLease.String())...)
}

// leaderAfter waits for a leader with a newer token, for a minute.
func (c *crew) leaderAfter(ctx context.Context, token uint64) (elector.Leader, error) {
	e, err := c.quorum.Election(election)
	if err != nil {
		return elector.Leader{}, err
	}
	var leader elector.Leader
	err = cli.Await(ctx, func() bool {
		leader, err = e.Leader(ctx)
		return err == nil && leader.Token > token
	})
	if err == nil {
		c.Printf("%s leads with token %d", leader.Candidate, leader.Token)
	}
	return leader, err
}

// verify ends the legacy application, and checks what was handled.
func (c *crew) verify(ctx context.Context) error {
	if err := c.End("shop", syscall.SIGTERM); err != nil {
		return err
	}
	return verify(ctx, c.db, c.redis, c.Out)
}

// verify waits until the queue is empty and every event has been handled, and fails if one is lost
// or was queued twice, or if there was nothing to check.
func verify(ctx context.Context, db *database, queueURL string, out io.Writer) error {
	q, err := openQueue(queueURL)
	if err != nil {
		return err
	}
	defer q.client.Close()
	var events, handled, twice, leaders, queued int64
	for limit := time.Now().Add(30 * time.Second); ; cli.Pause(ctx, 100*time.Millisecond) {
		queued, err = q.client.XLen(ctx, queueKey).Result()
		if err == nil {
			err = db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM events), "+
				"(SELECT COUNT(*) FROM events JOIN handled ON event_id = id), "+
				"(SELECT COUNT(*) FROM handled WHERE twice), "+
				"(SELECT COUNT(DISTINCT token) FROM handled)").Scan(&events, &handled, &twice, &leaders)
		}
		if ctx.Err() != nil || time.Now().After(limit) || err == nil && queued == 0 && handled == events {
			break
		}
	}
	fmt.Fprintf(out, "%d events, fed by %d leaders; lost: %d, queued twice: %d\n", events, leaders, events-handled, twice)
	if err == nil && (events == 0 || handled != events || twice > 0 || queued > 0) {
		err = errors.New("the events were not handled exactly once")
	}
	return err
}
