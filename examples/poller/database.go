package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"             // SQLite, in Go

	"github.com/mandate-dev/mandate/examples/internal/sqlite"
)

// database is that of the legacy application: its table of events and, for this example, the record
// of what was handled.
type database struct {
	*sql.DB
	sqlite bool
}

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
	db := &database{}
	var err error
	if strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://") {
		db.DB, err = sql.Open("pgx", where)
	} else {
		db.sqlite = true
		db.DB, err = sql.Open("sqlite", sqlite.DSN(where))
	}
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(24)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := sqlite.Open(ctx, db.createTables); err != nil {
		db.Close()
		return nil, fmt.Errorf("the database: %w", err)
	}
	return db, nil
}

func (db *database) createTables(ctx context.Context) error {
	return sqlite.InTx(ctx, db.DB, func(tx *sql.Tx) error {
		if !db.sqlite {
			// IF NOT EXISTS alone fails when two processes start at the same time.
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(20261121)"); err != nil {
				return err
			}
		}
		for _, statement := range tables {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// read reads late rows in the gaps, and then new rows: at most batch rows in all.
func (db *database) read(ctx context.Context, c checkpoint, batch int) (reading, error) {
	r := reading{gapsTo: allGaps}
	if len(c.Gaps) > 0 {
		var args []any
		for _, g := range c.Gaps {
			args = append(args, g.From, g.To)
		}
		late, err := db.rows(ctx, db.lateQuery(len(c.Gaps), batch), args...)
		if err != nil {
			return r, err
		}
		r.rows = late
		if len(late) == batch {
			r.gapsTo = late[batch-1].ID
			return r, nil
		}
	}
	if len(c.Gaps) >= maxGaps {
		return r, nil
	}
	fresh, err := db.rows(ctx, fmt.Sprintf("SELECT id, type, payload FROM events WHERE id > $1 ORDER BY id LIMIT %d", batch-len(r.rows)), c.High)
	r.rows = append(r.rows, fresh...)
	return r, err
}

// lateQuery looks into so many gaps, each with one look-up in the index. A chain of "id BETWEEN ...
// OR ..." would scan the whole table, on SQLite and on PostgreSQL, and on PostgreSQL so would a
// plain join.
func (db *database) lateQuery(gaps, limit int) string {
	values := make([]string, gaps)
	for i := range values {
		values[i] = fmt.Sprintf("(CAST($%d AS BIGINT), CAST($%d AS BIGINT))", 2*i+1, 2*i+2)
	}
	from := "gaps JOIN events ON id BETWEEN low AND high"
	if !db.sqlite {
		from = fmt.Sprintf("gaps CROSS JOIN LATERAL (SELECT id, type, payload FROM events WHERE id BETWEEN low AND high ORDER BY id LIMIT %d) AS late", limit)
	}
	return fmt.Sprintf("WITH gaps (low, high) AS (VALUES %s) SELECT id, type, payload FROM %s ORDER BY id LIMIT %d", strings.Join(values, ", "), from, limit)
}

func (db *database) rows(ctx context.Context, query string, args ...any) ([]event, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []event
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.ID, &e.Type, &e.Payload); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}
