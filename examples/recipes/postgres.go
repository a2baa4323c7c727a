package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/health"
)

// postgres writes to PostgreSQL while it leads. The database refuses an older leader.
func postgres(ctx context.Context, q *elector.Quorum) error {
	cfg, err := pgx.ParseConfig(dbURL)
	if err != nil {
		return err
	}
	// Below the lease: a leader that is suspended within a transaction keeps its locks from its successor for so long.
	cfg.RuntimeParams["idle_in_transaction_session_timeout"] = fmt.Sprint((lease / 2).Milliseconds())
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	marks, err := fence.NewSQL(fence.PostgreSQL, "")
	if err != nil {
		return err
	}
	if err := marks.Create(ctx, db); err != nil { // or put marks.Schema() into your migrations
		return err
	}
	beat := health.NewHeartbeat(2 * lease) // a leader that waits longer for a lock is replaced
	e, err := elector.New(q, elector.Config{Election: "orders", Lease: lease, WorkProbe: beat})
	if err != nil {
		return err
	}
	return e.Run(ctx, loop(beat, func(ctx context.Context, token uint64) error { return transaction(ctx, db, marks, token) }))
}

func transaction(ctx context.Context, db *sql.DB, marks *fence.SQL, token uint64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := marks.Guard(ctx, tx, "orders", token); err != nil {
		return err
	}
	// Read and write in tx, as here in a table orders (token bigint).
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (token) VALUES ($1)", token); err != nil {
		return err
	}
	slog.Info("working", "token", token)
	return tx.Commit()
}
