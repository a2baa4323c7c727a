package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

const (
	demoLimit  = 4 * time.Minute // bounds a run that is stuck; it takes about 20 s
	demoLease  = 3 * time.Second
	demoShards = 12
)

// demo runs everything on one machine without any server: members as processes, an embedded Redis,
// SQLite. One member joins, one hangs at a tenant, one is suspended, one is killed, and one is
// stopped.
func (a *app) demo(interrupted context.Context) (err error) {
	ctx, cancel := context.WithTimeout(interrupted, demoLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "shards-")
	if err != nil {
		return err
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // leases end by the clock, as on a real server
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("starting the embedded Redis: %w", err)
	}
	defer m.Close()
	c, err := newCrew(ctx, a.logLevel, dir, filepath.Join(dir, "invoices.db"), demoLease, demoShards, "redis://"+m.Addr())
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s := &demoRun{app: a, crew: c, began: time.Now(), step: time.Now()}
	err = s.play(ctx)
	c.close()
	if interrupted.Err() != nil {
		return errors.Join(errors.New("interrupted"), os.RemoveAll(dir))
	}
	if err != nil {
		return fmt.Errorf("%w\nthe members' logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// demoRun is one run of the demo.
type demoRun struct {
	*crew
	app         *app
	began, step time.Time // of the demo, and of its last step
	owners      []owner   // at the end of the last step, by shard
}

func (s *demoRun) play(ctx context.Context) error {
	s.printf("an embedded Redis, an SQLite file, %d shards; the lease is %v", demoShards, demoLease)
	if err := s.start("shop", "sell"); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.together, s.joins, s.hangs, s.suspended, s.killed, s.stops} {
		if err := step(ctx); err != nil {
			return err
		}
		cli.Pause(ctx, time.Second)
	}
	if err := s.stop("shop"); err != nil {
		return err
	}
	s.printf("the shop closes; is every order invoiced, and once?")
	return s.verify(ctx)
}

func (s *demoRun) together(ctx context.Context) error {
	s.next("60 tenants order; three members start together")
	if err := errors.Join(s.member("m1"), s.member("m2"), s.member("m3")); err != nil {
		return err
	}
	return s.even(ctx, "all shards have owners", "m1", "m2", "m3")
}

func (s *demoRun) joins(ctx context.Context) error {
	s.next("m4 joins")
	// It will hang at a tenant, or if it has none by then at its first one.
	if err := s.member("m4", "--hang-after", "2s"); err != nil {
		return err
	}
	return s.even(ctx, "each has its part", "m1", "m2", "m3", "m4")
}

func (s *demoRun) hangs(ctx context.Context) error {
	s.next("m4 has a tenant that hangs; it lives on, and could renew for ever")
	for ; ctx.Err() == nil; cli.Pause(ctx, 20*time.Millisecond) {
		moved, err := s.moved(ctx)
		if err == nil && slices.ContainsFunc(moved, func(m move) bool { return m.reason == elector.ReasonUnhealthy }) {
			break
		}
	}
	return s.even(ctx, "one shard moved away, one came", "m1", "m2", "m3", "m4")
}

func (s *demoRun) suspended(ctx context.Context) error {
	s.next("m3 is suspended (SIGSTOP), as a virtual machine may be")
	if err := s.suspend(ctx, "m3"); err != nil {
		return err
	}
	if err := s.even(ctx, "the others own its shards", "m1", "m2", "m4"); err != nil {
		return err
	}
	s.next("it wakes up: its terms are over, and the database refuses its tokens")
	s.signal("m3", syscall.SIGCONT)
	return s.even(ctx, "it has a part again", "m1", "m2", "m3", "m4")
}

func (s *demoRun) killed(ctx context.Context) error {
	assigner, err := s.assigner(ctx)
	if err != nil {
		return err
	}
	s.next("%s, which plans for all, is killed (-9): its leases must run out", assigner)
	s.kill(assigner)
	return s.even(ctx, "the others own its shards", s.rest(assigner)...)
}

func (s *demoRun) stops(ctx context.Context) error {
	name := s.rest()[0]
	s.next("%s is stopped, as in a deploy (SIGTERM)", name)
	if err := s.stop(name); err != nil {
		return err
	}
	return s.even(ctx, "the others own its shards", s.rest(name)...)
}

// even waits until these members own all shards evenly, and prints what has moved since the last
// step.
func (s *demoRun) even(ctx context.Context, what string, names ...string) error {
	owners, err := s.awaitEven(ctx, names...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	took := time.Since(s.step)
	counts := map[string]int{}
	for _, o := range owners {
		counts[o.member]++
	}
	var each []string
	for _, name := range names {
		each = append(each, fmt.Sprintf("%s %d", name, counts[name]))
	}
	s.printf("  %s after %v: %s", what, took.Round(10*time.Millisecond), strings.Join(each, ", "))
	moved, err := s.moved(ctx)
	if err != nil {
		return err
	}
	for _, line := range summary(moved) {
		s.printf("  %s", line)
	}
	s.owners = owners
	return nil
}

// move is the end of a term that was followed by another one.
type move struct {
	reason elector.Reason
	gap    time.Duration // without an owner, at most
}

// moved lists the terms that have ended since the last step.
func (s *demoRun) moved(ctx context.Context) (all []move, err error) {
	for n, before := range s.owners {
		terms, err := s.election(n).History(ctx, 10)
		if err != nil {
			return nil, err
		}
		for _, t := range terms {
			if t.Token >= before.token && !t.Current {
				all = append(all, move{t.Reason, max(t.Gap, t.MaxGap)})
			}
		}
	}
	return all, nil
}

func summary(moves []move) (lines []string) {
	count, longest := map[elector.Reason]int{}, map[elector.Reason]time.Duration{}
	for _, m := range moves {
		count[m.reason]++
		longest[m.reason] = max(longest[m.reason], m.gap)
	}
	for _, r := range slices.Sorted(maps.Keys(count)) {
		lines = append(lines, fmt.Sprintf("%d moved (%s), without an owner for at most %v", count[r], r, longest[r].Round(time.Millisecond)))
	}
	return lines
}

func (s *demoRun) verify(ctx context.Context) error {
	r, err := verifyWithin(ctx, s.db, time.Minute)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.app.stdout)
	r.print(s.app.stdout)
	if r.moves < 10 {
		return fmt.Errorf("%d moves: too few for a test", r.moves)
	}
	return r.verdict()
}

// next begins a step.
func (s *demoRun) next(format string, args ...any) {
	s.step = time.Now()
	s.printf(format, args...)
}

func (s *demoRun) printf(format string, args ...any) {
	fmt.Fprintf(s.app.stdout, "%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}
