package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// crew runs this program as child processes, for the demo and the tests, and observes the group
// from outside.
type crew struct {
	dir      string
	args     []string // of every child
	work     []string // of every member, except for its shards and id
	shards   int
	quorum   *elector.Quorum
	db       *database
	children map[string]*child
}

type child struct {
	cmd   *exec.Cmd
	alive io.Closer // its standard input: the child exits when this is closed
	log   *os.File
	done  chan struct{}
}

const crewGroup = "invoices"

func newCrew(ctx context.Context, logLevel, dir, db string, lease time.Duration, shards int, urls ...string) (*crew, error) {
	c := &crew{dir: dir, shards: shards, children: map[string]*child{}}
	c.args = []string{"--exit-with-stdin", "--db", db, "--log-level", logLevel}
	for _, url := range urls {
		c.args = append(c.args, "--redis", url)
	}
	c.work = []string{"work", "--group", crewGroup, "--lease", lease.String(), "--stall", (lease / 2).String()}
	var err error
	if c.quorum, err = elector.Open(urls...); err != nil {
		return nil, err
	}
	if c.db, err = openDatabase(ctx, db); err != nil {
		return nil, errors.Join(err, c.quorum.Close())
	}
	return c, nil
}

func (c *crew) close() {
	for _, ch := range c.children {
		ch.end()
	}
	c.db.Close()
	c.quorum.Close()
}

// member starts a member of the group.
func (c *crew) member(id string, more ...string) error {
	args := append(slices.Clone(c.work), more...)
	return c.start(id, append(args, "--shards", strconv.Itoa(c.shards), "--id", id)...)
}

func (c *crew) start(name string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), self, append(args, c.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	ch := &child{cmd, alive, log, make(chan struct{})}
	go func() {
		defer close(ch.done)
		_ = cmd.Wait()
	}()
	c.children[name] = ch
	return nil
}

func (c *crew) signal(name string, s syscall.Signal) { _ = c.children[name].cmd.Process.Signal(s) }

// suspend stops a process while it is not writing: SQLite has one writer at a time, so a process
// suspended in a transaction would block all others.
func (c *crew) suspend(ctx context.Context, name string) error {
	return c.db.inTx(ctx, func(*sql.Tx) error {
		c.signal(name, syscall.SIGSTOP)
		return nil
	})
}

func (c *crew) kill(name string) {
	ch := c.children[name]
	_ = ch.cmd.Process.Kill()
	<-ch.done
	ch.end()
	delete(c.children, name)
}

// stop sends SIGTERM, as a deploy does. It returns an error unless the child exits with 0.
func (c *crew) stop(name string) error {
	c.signal(name, syscall.SIGTERM)
	ch := c.children[name]
	ch.ends() // wait before closing its standard input: a child that exits because of that may be killed by a signal that is delivered late
	ch.end()
	delete(c.children, name)
	if code := ch.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s: exit code %d", name, code)
	}
	return nil
}

// end makes a child exit by closing its standard input, and kills it if it does not. (A suspended
// child does not.)
func (ch *child) end() {
	_ = ch.alive.Close()
	if !ch.ends() {
		_ = ch.cmd.Process.Kill()
		<-ch.done
	}
	_ = ch.log.Close()
}

// ends waits for a child to exit, for at most 20 s, and reports whether it has.
func (ch *child) ends() bool {
	select {
	case <-ch.done:
		return true
	case <-time.After(20 * time.Second):
		return false
	}
}

// rest returns the names of the running members other than but, sorted.
func (c *crew) rest(but ...string) (names []string) {
	for name := range maps.Keys(c.children) {
		if strings.HasPrefix(name, "m") && !slices.Contains(but, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// owner is the owner of a shard according to its lock. (shard.Read reports what the members
// report.)
type owner struct {
	member string // empty: no one
	token  uint64
}

// election returns the election of a shard.
func (c *crew) election(n int) *elector.Election {
	el, err := c.quorum.Election(shard.ElectionOf(crewGroup, n))
	if err != nil {
		panic(err) // impossible: the name is a constant
	}
	return el
}

// awaitEven waits until these members own all shards evenly, and returns the owners by shard.
func (c *crew) awaitEven(ctx context.Context, names ...string) ([]owner, error) {
	var last error
	for ; ; cli.Pause(ctx, 20*time.Millisecond) {
		owners, err := c.look(ctx)
		if err == nil {
			if err = uneven(owners, names); err == nil {
				return owners, nil
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("not in time: %w", cmp.Or(last, err))
		}
		last = err
	}
}

func (c *crew) look(ctx context.Context) ([]owner, error) {
	owners := make([]owner, c.shards)
	for n := range owners {
		st, err := c.election(n).Status(ctx)
		if err != nil {
			return nil, err
		}
		if st.Leader != nil {
			owners[n] = owner{st.Leader.Candidate, st.Leader.Token}
		}
	}
	return owners, nil
}

// uneven returns an error that describes why the shards are not owned evenly.
func uneven(owners []owner, names []string) error {
	counts := map[string]int{}
	for n, o := range owners {
		if o.member == "" {
			return fmt.Errorf("shard %d has no owner", n)
		}
		counts[o.member]++
	}
	sum, least, most := 0, len(owners), 0
	for _, name := range names {
		sum, least, most = sum+counts[name], min(least, counts[name]), max(most, counts[name])
	}
	if sum < len(owners) || most-least > 1 {
		return fmt.Errorf("want all owned evenly by %q: %v", names, counts)
	}
	return nil
}

// assigner waits for an assigner, and returns its name.
func (c *crew) assigner(ctx context.Context) (string, error) {
	for ; ctx.Err() == nil; cli.Pause(ctx, 20*time.Millisecond) {
		if st, err := shard.Read(ctx, c.quorum, crewGroup); err == nil && st.Assigner != "" {
			return st.Assigner, nil
		}
	}
	return "", errors.New("no assigner in time")
}
