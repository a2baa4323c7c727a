package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/examples/internal/children"
	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/examples/internal/sqlite"
)

// demo runs everything on one machine without any server: members as processes, an embedded Redis,
// SQLite. One member joins, one hangs at a tenant, one is suspended, one is killed, and one is
// stopped.
func demo(ctx context.Context, out io.Writer) error {
	return children.Demo(ctx, func(dir, redis string) error {
		path := filepath.Join(dir, "invoices.db")
		db, err := openDatabase(ctx, path)
		if err != nil {
			return err
		}
		defer db.Close()
		quorum, err := elector.Open(redis)
		if err != nil {
			return err
		}
		defer quorum.Close()
		c := &crew{children.New(out, dir, "--db", path, "--redis", redis), quorum, db}
		defer c.Kill()
		return c.play(ctx)
	})
}

func (c *crew) play(ctx context.Context) error {
	for _, s := range []struct {
		what string
		do   func() error
		then []string // the members that own all shards afterwards
	}{
		{"60 tenants order; three members start together", func() error {
			return errors.Join(c.Start("shop", "sell"), c.member("m1"), c.member("m2"), c.member("m3"))
		}, []string{"m1", "m2", "m3"}},
		{"m4 joins", func() error { return c.member("m4", "--hang-after", "3s") }, []string{"m1", "m2", "m3", "m4"}},
		{"m4 hangs at a tenant; it lives on, and could renew for ever", func() error { return c.fails(ctx, "m4") }, []string{"m1", "m2", "m3", "m4"}},
		{"m3 is suspended (SIGSTOP), as a virtual machine may be", func() error { return c.suspend(ctx, "m3") }, []string{"m1", "m2", "m4"}},
		{"it wakes up: its terms are over, and the database refuses its tokens", func() error { return c.Signal("m3", syscall.SIGCONT) }, []string{"m1", "m2", "m3", "m4"}},
		{"m4 is killed (-9): its leases must run out", func() error { return c.End("m4", syscall.SIGKILL) }, []string{"m1", "m2", "m3"}},
		{"m1 is stopped, as in a deploy (SIGTERM)", func() error { return c.End("m1", syscall.SIGTERM) }, []string{"m2", "m3"}},
		{"the shop closes; is every order invoiced, and once?", func() error { return c.End("shop", syscall.SIGTERM) }, []string{"m2", "m3"}},
	} {
		c.Printf("%s", s.what)
		step := time.Now()
		if err := s.do(); err != nil {
			return err
		}
		owned, err := c.even(ctx, s.then...)
		if err != nil {
			return err
		}
		c.Printf("  even after %v: %s", time.Since(step).Round(10*time.Millisecond), owned)
		cli.Pause(ctx, time.Second)
	}
	return c.db.verify(ctx, c.Out)
}

// crew is the processes, and observes the group from outside.
type crew struct {
	*children.Crew
	quorum *elector.Quorum
	db     *database
}

const demoLease = 3 * time.Second

// member starts a member of the group.
func (c *crew) member(id string, more ...string) error {
	return c.Start(id, "work", append(more, "--id", id, "--lease", demoLease.String(), "--stall", (demoLease/2).String())...)
}

// suspend stops a process while it is not writing: SQLite has one writer at a time, so a process
// suspended in a transaction would block all others.
func (c *crew) suspend(ctx context.Context, name string) error {
	return sqlite.InTx(ctx, c.db.DB, func(*sql.Tx) error { return c.Signal(name, syscall.SIGSTOP) })
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
	err = cli.Await(ctx, func() bool {
		st, err = shard.Read(ctx, c.quorum, group)
		return err == nil && ok(st)
	})
	if err != nil {
		err = fmt.Errorf("the shards do not come to rest: %w: %+v", err, st)
	}
	return st, err
}
