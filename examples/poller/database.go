package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"             // SQLite, in Go

	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/examples/internal/sqlite"
)

// database is that of the legacy application: its table of events and, for this example, the record
// of what was handled.
type database struct{ *sql.DB }

// tables of the application and of the record.
var tables = []string{
	"CREATE TABLE IF NOT EXISTS events (id BIGINT PRIMARY KEY, type TEXT NOT NULL, payload TEXT NOT NULL)",
	// Ids are handed out before the transactions that use them commit, as by PostgreSQL's sequences.
	// So rows appear in another order than their ids, and the ids of a rollback never appear.
	"CREATE TABLE IF NOT EXISTS event_ids (name TEXT PRIMARY KEY, next BIGINT NOT NULL)",
	"INSERT INTO event_ids (name, next) VALUES ('events', 1) ON CONFLICT DO NOTHING",
	// Handling the same queue entry again changes nothing here, which turns the "at least once" of
	// the queue into "exactly once" in the record. An event in two entries was queued twice.
	"CREATE TABLE IF NOT EXISTS handled (event_id BIGINT PRIMARY KEY, entry TEXT NOT NULL, token BIGINT NOT NULL, twice BOOLEAN NOT NULL DEFAULT FALSE)",
}

// openDatabase opens a PostgreSQL database by its URL, or an SQLite file by its path, and creates
// the missing tables.
func openDatabase(ctx context.Context, where string) (*database, error) {
	driver, dsn, lock := "sqlite", sqlite.DSN(where), "SELECT 1"
	if strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://") {
		// IF NOT EXISTS alone fails when two processes start at the same time.
		driver, dsn, lock = "pgx", where, "SELECT pg_advisory_xact_lock(20261121)"
	}
	conn, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	conn.SetMaxOpenConns(24)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = sqlite.InTx(ctx, conn, func(tx *sql.Tx) error {
		for _, statement := range append([]string{lock}, tables...) {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the database: %w", err)
	}
	return &database{conn}, nil
}

// read reads late rows in the gaps, each with one look-up in the index, and then new rows: at most batch
// rows in all.
func (db *database) read(ctx context.Context, c checkpoint, batch int) (reading, error) {
	r := reading{gapsTo: allGaps}
	ranges := c.Gaps
	if len(c.Gaps) < maxGaps {
		ranges = append(slices.Clone(c.Gaps), gap{From: c.High + 1, To: math.MaxInt64})
	}
	for _, g := range ranges {
		rows, err := sqlite.Rows(ctx, db.DB, func(e *event) []any { return []any{&e.ID, &e.Type, &e.Payload} },
			"SELECT id, type, payload FROM events WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3", g.From, g.To, batch-len(r.rows))
		if err != nil {
			return r, err
		}
		if r.rows = append(r.rows, rows...); len(r.rows) == batch {
			r.gapsTo = r.rows[batch-1].ID
			break
		}
	}
	return r, nil
}

// produce plays the legacy application: it writes events until ctx ends, some late, after others
// with higher ids, and some never, as a transaction that is rolled back. rate is per second, 1 or more.
func (db *database) produce(ctx context.Context, log *slog.Logger, rate int) error {
	var open sync.WaitGroup
	defer open.Wait()
	for ; ctx.Err() == nil; cli.Pause(ctx, time.Second/time.Duration(max(1, rate))) {
		open.Go(func() {
			// What has begun is finished, also when ctx ends.
			if err := db.write(context.WithoutCancel(ctx)); err != nil {
				log.Warn("an event was not written", "error", err) // no other part relies on it
			}
		})
	}
	return nil
}

// write takes an id and then, perhaps after others, writes the event.
func (db *database) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var id int64
	err := db.QueryRowContext(ctx, "UPDATE event_ids SET next = next + 1 RETURNING next - 1").Scan(&id)
	if err != nil {
		return err
	}
	switch chance := rand.Float64(); {
	case chance < 0.02:
		return nil
	case chance < 0.2:
		cli.Pause(ctx, rand.N(2*time.Second))
	}
	_, err = db.ExecContext(ctx, "INSERT INTO events (id, type, payload) VALUES ($1, 'order', '{}')", id)
	return err
}
