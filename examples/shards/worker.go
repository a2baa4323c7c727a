package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/health"
)

// worker is one member of the group: it writes the invoices of the tenants whose shards it owns.
type worker struct {
	id        string
	shards    int
	lease     time.Duration
	stall     time.Duration // how long the work on a shard may make no progress
	hangAfter time.Duration
	db        *database
	log       *slog.Logger
	beats     []*health.Heartbeat    // by shard
	hangs     time.Time              // when a tenant begins to hang on purpose; zero: never
	hanging   atomic.Pointer[string] // that tenant
}

func (w *worker) run(ctx context.Context, urls []string) error {
	for range w.shards {
		w.beats = append(w.beats, health.NewHeartbeat(w.stall))
	}
	if w.hangAfter > 0 {
		w.hangs = time.Now().Add(w.hangAfter)
	}
	quorum, err := elector.Open(urls...) // one quorum for all shards
	if err != nil {
		return err
	}
	defer quorum.Close()
	member, err := shard.New(quorum, shard.Config{
		Group: group, Shards: w.shards, ID: w.id, Lease: w.lease, Logger: w.log,
		// A member that can't reach the database owns no shards ...
		Probe: health.Named("database", health.Func(w.db.PingContext)),
		// ... and a shard whose work makes no progress moves to another member, alone.
		WorkProbe:         func(s int) health.Probe { return health.Named("invoicing", w.beats[s]) },
		WorkProbeSettings: health.Settings{Interval: w.stall / 4},
	})
	if err != nil {
		return err
	}
	w.id = member.ID()
	return member.Run(ctx, w.serve)
}

// serve does the work of one shard until its term ends.
func (w *worker) serve(ctx context.Context, term *shard.Term) error {
	log := w.log.With("member", w.id, "shard", term.Shard, "token", term.Token())
	for ; ctx.Err() == nil; cli.Pause(ctx, 100*time.Millisecond) {
		err := w.pass(ctx, term)
		switch {
		case err == nil:
			// Beat only after progress: work that fails repeatedly must not look alive.
			w.beats[term.Shard].Beat()
		case errors.Is(err, fence.ErrStale):
			// The database has learned of the new owner before this process. Returning ends the
			// term.
			log.Warn("a later owner has written", "error", err)
			return nil
		case ctx.Err() == nil:
			log.Warn("invoicing failed", "error", err)
		}
	}
	return nil
}

// pass writes the open invoices of the shard's tenants.
func (w *worker) pass(ctx context.Context, term *shard.Term) error {
	tenants, err := w.db.open(ctx)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		if !term.Has(tenant) {
			continue
		}
		if err := w.collect(ctx, tenant); err != nil {
			return err
		}
		if err := w.db.write(ctx, tenant, invoice{shard: term.Shard, token: term.Token(), member: w.id}); err != nil {
			return err
		}
		w.beats[term.Shard].Beat()
	}
	return nil
}

// collect is where a real program would call the tenant's systems, with everything that can go
// wrong there. It runs before the transaction, so that a tenant that hangs holds no lock.
func (w *worker) collect(ctx context.Context, tenant string) error {
	if !w.hangs.IsZero() && time.Now().After(w.hangs) && w.hanging.CompareAndSwap(nil, &tenant) {
		w.log.Warn("a tenant hangs, as --hang-after says", "tenant", tenant)
	}
	if chosen := w.hanging.Load(); chosen != nil && *chosen == tenant {
		<-ctx.Done() // the probe fails, which ends the term
	}
	return ctx.Err()
}
