package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/health"
)

// worker is one member of the group: it writes the invoices of the tenants whose shards it owns.
type worker struct {
	id, group   string
	shards      int
	lease       time.Duration
	stall       time.Duration // how long the work on a shard may make no progress
	interval    time.Duration
	hangAfter   time.Duration
	db          *database
	log         *slog.Logger
	byShard     []state
	hangs       time.Time              // when a tenant begins to hang on purpose; zero: never
	hangsTenant atomic.Pointer[string] // the name of that tenant
}

// state is what the probe of a shard uses.
type state struct{ beat *health.Heartbeat }

func (a *app) workCommand() *cobra.Command {
	w := &worker{}
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Run one member: write the invoices of the shards that it owns",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if w.stall <= 0 || w.interval <= 0 || w.hangAfter < 0 {
				return errors.New("--stall and --interval must be above 0, --hang-after not negative")
			}
			return a.withDatabase(cmd, func(ctx context.Context, db *database) error {
				w.db = db
				return w.run(ctx, a)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.id, "id", "", "this member's name (default: host name and process id)")
	f.StringVar(&w.group, "group", "invoices", "the group's name")
	f.IntVar(&w.shards, "shards", 12, "number of shards; the same for all members")
	f.DurationVar(&w.lease, "lease", 5*time.Second, "the shards of a member that dies move after it; the same for all members")
	f.DurationVar(&w.stall, "stall", 3*time.Second, "a shard whose work makes no progress for so long moves to another member")
	f.DurationVar(&w.interval, "interval", 100*time.Millisecond, "time between looks for open invoices")
	f.DurationVar(&w.hangAfter, "hang-after", 0, "hang on one tenant after so long, to see its shard move (0: don't)")
	return cmd
}

func (w *worker) run(ctx context.Context, a *app) error {
	if w.id == "" {
		host, _ := os.Hostname()
		w.id = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	w.log = a.log.With("member", w.id)
	w.byShard = make([]state, max(w.shards, 0))
	for s := range w.byShard {
		w.byShard[s].beat = health.NewHeartbeat(w.stall)
	}
	if w.hangAfter > 0 {
		w.hangs = time.Now().Add(w.hangAfter)
	}
	quorum, err := elector.Open(a.urls()...) // one quorum for all shards
	if err != nil {
		return err
	}
	defer quorum.Close()
	member, err := shard.New(quorum, shard.Config{
		Group: w.group, Shards: w.shards, ID: w.id, Lease: w.lease, Logger: a.log,
		// A member that can't reach the database owns no shards ...
		Probe: health.Named("database", health.SQL(w.db)),
		// ... and a shard whose work makes no progress moves to another member, alone.
		WorkProbe:         func(s int) health.Probe { return health.Named("invoicing", w.byShard[s].beat) },
		WorkProbeSettings: health.Settings{Interval: w.stall / 4},
	})
	if err != nil {
		return err
	}
	return member.Run(ctx, w.serve)
}

// serve does the work of one shard until its term ends.
func (w *worker) serve(ctx context.Context, term *shard.Term) error {
	log := w.log.With("shard", term.Shard, "token", term.Token())
	for ctx.Err() == nil {
		err := w.pass(ctx, term)
		switch {
		case err == nil:
			// Beat only after progress: work that fails repeatedly must not look alive.
			w.byShard[term.Shard].beat.Beat()
		case errors.Is(err, fence.ErrStale):
			// The database has learned of the new owner before this process. Returning ends the
			// term.
			log.Warn("a later owner has written", "error", err)
			return nil
		case ctx.Err() == nil:
			log.Warn("invoicing failed", "error", err)
		}
		cli.Pause(ctx, w.interval)
	}
	return nil
}

// pass writes the open invoices of the shard's tenants.
func (w *worker) pass(ctx context.Context, term *shard.Term) error {
	s := &w.byShard[term.Shard]
	open, err := w.db.open(ctx, term.Has)
	if err != nil {
		return err
	}
	for tenant := range open {
		if err := w.collect(ctx, tenant); err != nil {
			return err
		}
		_, err := w.db.write(ctx, tenant, writer{w.group, term.Shard, term.Token(), w.id})
		if err != nil {
			return err
		}
		s.beat.Beat()
	}
	return nil
}

// collect is where a real program would call the tenant's systems, with everything that can go
// wrong there. It runs before the transaction, so that a tenant that hangs holds no lock.
func (w *worker) collect(ctx context.Context, tenant string) error {
	if !w.hangs.IsZero() && time.Now().After(w.hangs) && w.hangsTenant.CompareAndSwap(nil, &tenant) {
		w.log.Warn("a tenant hangs, as --hang-after says", "tenant", tenant)
	}
	if chosen := w.hangsTenant.Load(); chosen != nil && *chosen == tenant {
		<-ctx.Done() // the probe fails, which ends the term
	}
	return ctx.Err()
}
