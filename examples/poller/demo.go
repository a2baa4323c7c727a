package main

import (
	"context"
	"errors"
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
		c, err := newCrew(out, dir, filepath.Join(dir, "legacy.db"), redis)
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
	db, redis string
	quorum    *elector.Quorum
}

const demoLease = 2 * time.Second

func newCrew(out io.Writer, dir, db, redis string) (*crew, error) {
	quorum, err := elector.Open(redis)
	return &crew{children.New(out, dir, "--db", db, "--redis", redis), db, redis, quorum}, err
}

func (c *crew) close() {
	c.Kill()
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
	db, err := openDatabase(ctx, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	return verify(ctx, db, c.redis, c.Out)
}
