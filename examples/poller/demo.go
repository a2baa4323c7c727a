package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// demo runs everything on one machine without any server: three workers as processes, an embedded
// Redis, SQLite. The leader hangs, and its successor is killed.
func demo(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "poller-")
	if err != nil {
		return err
	}
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true) // leases end by the clock, as on a real server
	if err := redis.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("starting the embedded Redis: %w", err)
	}
	defer redis.Close()
	c, err := newCrew(out, dir, filepath.Join(dir, "legacy.db"), "redis://"+redis.Addr())
	if err != nil {
		return err
	}
	defer c.close()
	if err := errors.Join(c.play(ctx), ctx.Err()); err != nil {
		return fmt.Errorf("%w\nthe workers' logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

func (c *crew) play(ctx context.Context) error {
	c.printf("three workers; the legacy application writes 60 events a second, some late")
	err := errors.Join(c.start("shop", "produce", "--rate", "60"), c.worker("worker-1", "--hang-after", "3s"))
	if err != nil {
		return err
	}
	first, err := c.leaderAfter(ctx, 0)
	if err != nil {
		return err
	}
	c.printf("in 3 s its polling hangs; its process lives on, and could renew for ever")
	if err := errors.Join(c.worker("worker-2"), c.worker("worker-3")); err != nil {
		return err
	}
	second, err := c.leaderAfter(ctx, first.Token)
	if err != nil {
		return err
	}
	cli.Pause(ctx, 2*time.Second)
	c.printf("%s is killed (-9): it releases nothing, so its lease must expire", second.Candidate)
	if err := c.end(second.Candidate, syscall.SIGKILL); err != nil {
		return err
	}
	if _, err := c.leaderAfter(ctx, second.Token); err != nil {
		return err
	}
	cli.Pause(ctx, 2*time.Second)
	c.printf("the legacy application stops; is everything handled, and once?")
	return c.verify(ctx)
}

// crew runs this program as child processes, and observes the election from outside.
type crew struct {
	dir, db, redis string
	quorum         *elector.Quorum
	children       map[string]*exec.Cmd
	out            io.Writer
	began          time.Time
}

const demoLease = 2 * time.Second

func newCrew(out io.Writer, dir, db, redis string) (*crew, error) {
	quorum, err := elector.Open(redis)
	return &crew{dir, db, redis, quorum, map[string]*exec.Cmd{}, out, time.Now()}, err
}

func (c *crew) close() {
	for name := range c.children {
		_ = c.end(name, syscall.SIGKILL)
	}
	c.quorum.Close()
}

func (c *crew) printf(format string, args ...any) {
	fmt.Fprintf(c.out, "%6.1f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

func (c *crew) worker(id string, more ...string) error {
	return c.start(id, "work", append(more, "--id", id, "--lease", demoLease.String())...)
}

func (c *crew) start(name, command string, flags ...string) error {
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0], append(flags, "--exit-with-stdin", "--db", c.db, "--redis", c.redis, command)...)
	cmd.Stdout, cmd.Stderr = log, log
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	c.children[name] = cmd
	return cmd.Start()
}

// end ends a child by a signal. It returns an error if the child does not exit with 0 after SIGTERM.
func (c *crew) end(name string, s syscall.Signal) error {
	err := c.children[name].Process.Signal(s)
	if exit := c.children[name].Wait(); s == syscall.SIGTERM && exit != nil {
		err = fmt.Errorf("%s: %w", name, exit)
	}
	delete(c.children, name)
	return err
}

// leaderAfter waits for a leader with a newer token, for a minute.
func (c *crew) leaderAfter(ctx context.Context, token uint64) (elector.Leader, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	e, err := c.quorum.Election(election)
	if err != nil {
		return elector.Leader{}, err
	}
	for ; ctx.Err() == nil; cli.Pause(ctx, 10*time.Millisecond) {
		st, err := e.Status(ctx)
		if err == nil && st.Leader != nil && st.Leader.Token > token {
			c.printf("%s leads with token %d", st.Leader.Candidate, st.Leader.Token)
			return *st.Leader, nil
		}
	}
	return elector.Leader{}, errors.New("no new leader in time")
}

// verify ends the legacy application, and checks what was handled.
func (c *crew) verify(ctx context.Context) error {
	if err := c.end("shop", syscall.SIGTERM); err != nil {
		return err
	}
	db, err := openDatabase(ctx, c.db)
	if err != nil {
		return err
	}
	defer db.Close()
	return verify(ctx, db, c.redis, c.out)
}
