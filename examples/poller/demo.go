package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

const (
	demoLimit = 3 * time.Minute // bounds a run that is stuck; it takes about 20 s
	demoLease = 2 * time.Second
)

// demo runs everything on one machine without any server: three workers as processes, an embedded
// Redis, SQLite. The leader hangs, and its successor is killed.
func (a *app) demo(interrupted context.Context) (err error) {
	ctx, cancel := context.WithTimeout(interrupted, demoLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "poller-")
	if err != nil {
		return err
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // leases end by the clock, as on a real server
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("starting the embedded Redis: %w", err)
	}
	defer m.Close()
	s := &demoRun{app: a, dir: dir, redis: "redis://" + m.Addr(), began: time.Now(), children: map[string]*child{}}
	defer func() {
		s.endAll()
		if interrupted.Err() != nil {
			err = errors.Join(errors.New("interrupted"), os.RemoveAll(dir))
			return
		}
		if err != nil {
			err = fmt.Errorf("%w\nthe workers' logs are in %s", err, dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	return s.play(ctx)
}

// demoRun has the state of a demo: its processes and the time of its start.
type demoRun struct {
	app      *app
	dir      string
	redis    string
	began    time.Time
	children map[string]*child
	quorum   *elector.Quorum
}

type child struct {
	cmd   *exec.Cmd
	alive io.Closer // its standard input: the child exits when this is closed
	log   *os.File
	done  chan struct{}
}

func (s *demoRun) play(ctx context.Context) (err error) {
	s.printf("an embedded Redis, an SQLite file, three workers; the lease is %v", demoLease)
	if s.quorum, err = elector.Open(s.redis); err != nil {
		return err
	}
	defer s.quorum.Close()
	if err := s.start(ctx, "producer", "produce", "--rate", "60", "--late", "0.2", "--late-by", "1500ms"); err != nil {
		return err
	}
	s.printf("the legacy application writes 60 events a second, one in five late")
	work := []string{"work", "--lease", demoLease.String(), "--stall", "1s", "--claim-after", "2s"}
	// The first worker to start leads first, and will hang.
	if err := s.start(ctx, "worker-1", append(work, "--stall-after", "3s")...); err != nil {
		return err
	}
	first, err := s.leaderAfter(ctx, 0)
	if err != nil {
		return err
	}
	for _, name := range []string{"worker-2", "worker-3"} {
		if err := s.start(ctx, name, work...); err != nil {
			return err
		}
	}
	s.printf("in 3 s its polling hangs; its process lives on, and could renew")
	second, err := s.leaderAfter(ctx, first.Token)
	if err != nil {
		return err
	}
	cli.Pause(ctx, 2*time.Second)
	s.printf("%s is killed (-9): it releases nothing, so its lease must expire", second.Candidate)
	s.children[second.Candidate].kill()
	delete(s.children, second.Candidate)
	if _, err := s.leaderAfter(ctx, second.Token); err != nil {
		return err
	}
	cli.Pause(ctx, 2*time.Second)
	if err := s.died(); err != nil {
		return err
	}
	s.children["producer"].end()
	delete(s.children, "producer")
	s.printf("the legacy application stops; is everything handled, and once?")
	return s.verify(ctx)
}

// start runs this program again as a child.
func (s *demoRun) start(ctx context.Context, name string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	args = append(args, "--exit-with-stdin", "--redis", s.redis, "--db", filepath.Join(s.dir, "legacy.db"), "--log-level", s.app.logLevel)
	if args[0] == "work" {
		args = append(args, "--id", name)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...)
	cmd.Stdout, cmd.Stderr = log, log
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	c := &child{cmd, alive, log, make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = cmd.Wait()
	}()
	s.children[name] = c
	return nil
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
	_ = c.log.Close()
}

// end closes the pipe that keeps the child alive, and kills the child if it does not exit.
func (c *child) end() {
	_ = c.alive.Close()
	select {
	case <-c.done:
	case <-time.After(10 * time.Second):
		c.kill()
	}
	_ = c.log.Close() // a second Close, after a kill, is harmless
}

func (s *demoRun) endAll() {
	for _, c := range s.children {
		c.end()
	}
}

// died returns an error that names a child that has exited unexpectedly: without it the demo would
// prove nothing.
func (s *demoRun) died() error {
	for name, c := range s.children {
		select {
		case <-c.done:
			return fmt.Errorf("%s has ended by itself: %v", name, c.cmd.ProcessState)
		default:
		}
	}
	return nil
}

func (s *demoRun) leaderAfter(ctx context.Context, token uint64) (elector.Leader, error) {
	began := time.Now()
	el, err := s.quorum.Election(s.app.election)
	if err != nil {
		return elector.Leader{}, err
	}
	for ; ; cli.Pause(ctx, 10*time.Millisecond) {
		st, err := el.Status(ctx)
		if ctx.Err() != nil {
			return elector.Leader{}, errors.New("no new leader in time")
		}
		if err == nil && st.Leader != nil && st.Leader.Token > token {
			s.printf("%s leads with token %d (%.1f s)", st.Leader.Candidate, st.Leader.Token, time.Since(began).Seconds())
			return *st.Leader, nil
		}
		if err := s.died(); err != nil {
			return elector.Leader{}, err
		}
	}
}

func (s *demoRun) verify(ctx context.Context) error {
	db, err := openDatabase(ctx, filepath.Join(s.dir, "legacy.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := openQueue(s.redis)
	if err != nil {
		return err
	}
	defer q.close()
	r, err := verifyWithin(ctx, db, q, time.Minute)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.app.stdout)
	r.print(s.app.stdout)
	if len(r.terms) < 3 {
		return fmt.Errorf("%d workers have fed, want 3 in turn", len(r.terms))
	}
	return r.verdict(0)
}

func (s *demoRun) printf(format string, args ...any) {
	fmt.Fprintf(s.app.stdout, "%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}
