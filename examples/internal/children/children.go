// Package children runs an example as child processes, for its demo and its tests.
package children

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
)

// Demo calls play with a new directory and an embedded Redis. It removes the directory if play
// succeeds; else the children's logs are left there.
func Demo(ctx context.Context, play func(dir, redisURL string) error) error {
	dir, err := os.MkdirTemp("", "mandate-example-")
	if err != nil {
		return err
	}
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true) // leases end by the clock, as on a real server
	if err := redis.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("starting the embedded Redis: %w", err)
	}
	defer redis.Close()
	if err := errors.Join(play(dir, "redis://"+redis.Addr()), ctx.Err()); err != nil {
		return fmt.Errorf("%w\nthe logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// Crew is the children of one run.
type Crew struct {
	Dir   string    // of their logs
	Out   io.Writer // of Printf
	Flags []string  // of all children

	began    time.Time
	children map[string]*exec.Cmd
}

// New returns a Crew without children.
func New(out io.Writer, dir string, flags ...string) *Crew {
	return &Crew{dir, out, append(flags, "--exit-with-stdin"), time.Now(), map[string]*exec.Cmd{}}
}

// Printf prints what happens, after the time since New.
func (c *Crew) Printf(format string, args ...any) {
	fmt.Fprintf(c.Out, "%6.1f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// Start runs this program as a child of that name.
func (c *Crew) Start(name, command string, flags ...string) error {
	log, err := os.OpenFile(filepath.Join(c.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0], append(append(flags, c.Flags...), command)...)
	cmd.Stdout, cmd.Stderr = log, log
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	c.children[name] = cmd
	return cmd.Start()
}

// Signal sends a signal to a child.
func (c *Crew) Signal(name string, s syscall.Signal) error {
	return c.children[name].Process.Signal(s)
}

// End ends a child by a signal. It returns an error if the child does not exit with 0 after SIGTERM.
func (c *Crew) End(name string, s syscall.Signal) error {
	err := c.Signal(name, s)
	if exit := c.children[name].Wait(); s == syscall.SIGTERM && exit != nil {
		err = fmt.Errorf("%s: %w", name, exit)
	}
	delete(c.children, name)
	return err
}

// EndAll stops all children as a deploy does.
func (c *Crew) EndAll() (err error) {
	for name := range c.children {
		err = errors.Join(err, c.End(name, syscall.SIGTERM))
	}
	return err
}

// Kill kills the children that are left.
func (c *Crew) Kill() {
	for name := range c.children {
		_ = c.End(name, syscall.SIGKILL)
	}
}
