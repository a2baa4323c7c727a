package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// demo runs everything on one machine without any server: members as processes, an embedded Redis,
// SQLite. One member joins, one hangs at a tenant, one is suspended, one is killed, and one is
// stopped.
func demo(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "shards-")
	if err != nil {
		return err
	}
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true) // leases end by the clock, as on a real server
	if err := redis.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("starting the embedded Redis: %w", err)
	}
	defer redis.Close()
	c, err := newCrew(ctx, dir, "redis://"+redis.Addr())
	if err != nil {
		return err
	}
	defer c.close()
	c.out, c.began = out, time.Now()
	if err := errors.Join(c.play(ctx), ctx.Err()); err != nil {
		return fmt.Errorf("%w\nthe members' logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

func (c *crew) play(ctx context.Context) error {
	for _, s := range []struct {
		what string
		do   func() error
		then []string // the members that own all shards afterwards
	}{
		{"60 tenants order; three members start together", func() error {
			return errors.Join(c.start("shop", "sell"), c.member("m1"), c.member("m2"), c.member("m3"))
		}, []string{"m1", "m2", "m3"}},
		{"m4 joins", func() error { return c.member("m4", "--hang-after", "3s") }, []string{"m1", "m2", "m3", "m4"}},
		{"m4 hangs at a tenant; it lives on, and could renew for ever", func() error { return c.fails(ctx, "m4") }, []string{"m1", "m2", "m3", "m4"}},
		{"m3 is suspended (SIGSTOP), as a virtual machine may be", func() error { return c.suspend(ctx, "m3") }, []string{"m1", "m2", "m4"}},
		{"it wakes up: its terms are over, and the database refuses its tokens", func() error { return c.signal("m3", syscall.SIGCONT) }, []string{"m1", "m2", "m3", "m4"}},
		{"m4 is killed (-9): its leases must run out", func() error { return c.end("m4", syscall.SIGKILL) }, []string{"m1", "m2", "m3"}},
		{"m1 is stopped, as in a deploy (SIGTERM)", func() error { return c.end("m1", syscall.SIGTERM) }, []string{"m2", "m3"}},
		{"the shop closes; is every order invoiced, and once?", func() error { return c.end("shop", syscall.SIGTERM) }, []string{"m2", "m3"}},
	} {
		c.printf("%s", s.what)
		step := time.Now()
		if err := s.do(); err != nil {
			return err
		}
		owned, err := c.even(ctx, s.then...)
		if err != nil {
			return err
		}
		c.printf("  even after %v: %s", time.Since(step).Round(10*time.Millisecond), owned)
		cli.Pause(ctx, time.Second)
	}
	return c.db.verify(ctx, c.out)
}

func (c *crew) printf(format string, args ...any) {
	fmt.Fprintf(c.out, "%6.1f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// crew runs this program as child processes, and observes the group from outside.
type crew struct {
	dir, redis, path string
	quorum           *elector.Quorum
	db               *database
	children         map[string]*exec.Cmd
	out              io.Writer
	began            time.Time
}

const demoLease = 3 * time.Second

func newCrew(ctx context.Context, dir, redis string) (*crew, error) {
	c := &crew{dir: dir, redis: redis, path: filepath.Join(dir, "invoices.db"), children: map[string]*exec.Cmd{}}
	var err error
	if c.quorum, err = elector.Open(redis); err == nil {
		c.db, err = openDatabase(ctx, c.path)
	}
	return c, err
}

func (c *crew) close() {
	for name := range c.children {
		_ = c.end(name, syscall.SIGKILL)
	}
	c.db.Close()
	c.quorum.Close()
}

// member starts a member of the group.
func (c *crew) member(id string, more ...string) error {
	return c.start(id, "work", append(more, "--id", id, "--lease", demoLease.String(), "--stall", (demoLease/2).String())...)
}

func (c *crew) start(name, command string, flags ...string) error {
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0], append(flags, "--exit-with-stdin", "--db", c.path, "--redis", c.redis, command)...)
	cmd.Stdout, cmd.Stderr = log, log
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	c.children[name] = cmd
	return cmd.Start()
}

func (c *crew) signal(name string, s syscall.Signal) error {
	return c.children[name].Process.Signal(s)
}

// suspend stops a process while it is not writing: SQLite has one writer at a time, so a process
// suspended in a transaction would block all others.
func (c *crew) suspend(ctx context.Context, name string) error {
	return c.db.inTx(ctx, func(*sql.Tx) error { return c.signal(name, syscall.SIGSTOP) })
}

// end ends a child by a signal. It returns an error if the child does not exit with 0 after SIGTERM.
func (c *crew) end(name string, s syscall.Signal) error {
	err := c.signal(name, s)
	if exit := c.children[name].Wait(); s == syscall.SIGTERM && exit != nil {
		err = fmt.Errorf("%s: %w", name, exit)
	}
	delete(c.children, name)
	return err
}

// fails waits until a member has failed at a shard.
func (c *crew) fails(ctx context.Context, id string) error {
	_, err := c.await(ctx, func(st shard.Status) bool {
		return slices.ContainsFunc(st.Members, func(m shard.MemberStatus) bool { return m.ID == id && len(m.Unable) > 0 })
	})
	return err
}

// even waits until these members alone own all shards, evenly, and returns how many each owns.
func (c *crew) even(ctx context.Context, ids ...string) (string, error) {
	st, err := c.await(ctx, func(st shard.Status) bool {
		owners := 0
		for _, m := range st.Members {
			if len(m.Owned) == 0 {
				continue
			}
			if owners++; !slices.Contains(ids, m.ID) || len(m.Owned) != st.Shards/len(ids) {
				return false
			}
		}
		return owners == len(ids)
	})
	var each []string
	for _, m := range st.Members {
		each = append(each, fmt.Sprintf("%s %d", m.ID, len(m.Owned)))
	}
	return strings.Join(each, ", "), err
}

// await reads the status of the group until it is ok, for a minute.
func (c *crew) await(ctx context.Context, ok func(shard.Status) bool) (st shard.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for ; ctx.Err() == nil; cli.Pause(ctx, 20*time.Millisecond) {
		if st, err = shard.Read(ctx, c.quorum, group); err == nil && ok(st) {
			return st, nil
		}
	}
	return st, errors.Join(fmt.Errorf("the shards do not come to rest: %+v", st), err)
}
