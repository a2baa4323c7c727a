package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"           // SQLite, in Go

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/examples/internal/sqlite"
)

// database has the tenants, their invoices, and a mark for each tenant, which is the newest token
// that has written.
type database struct {
	*sql.DB
	sqlite bool
	marks  *fence.SQL
}

// openDatabase opens a PostgreSQL database by its URL, or an SQLite file by its path, and creates
// the missing tables.
func openDatabase(ctx context.Context, where string) (*database, error) {
	db, dialect := &database{}, fence.PostgreSQL
	if strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://") {
		config, err := pgx.ParseConfig(where)
		if err != nil {
			return nil, errors.New("the database: not a PostgreSQL URL: write postgres://user:password@host:port/name") // err may quote the password
		}
		// This bounds how long a member that is suspended in a transaction can hold a tenant's
		// mark.
		config.RuntimeParams["idle_in_transaction_session_timeout"] = "2000"
		db.DB = stdlib.OpenDB(*config)
	} else {
		var err error
		if db.DB, err = sql.Open("sqlite", sqlite.DSN(where)); err != nil {
			return nil, err
		}
		db.sqlite, dialect = true, fence.SQLite
	}
	db.SetMaxOpenConns(16)
	var err error
	if db.marks, err = fence.NewSQL(dialect, "marks"); err == nil {
		err = sqlite.Open(ctx, db.createTables)
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("the database: %w", err)
	}
	return db, nil
}

func (db *database) createTables(ctx context.Context) error {
	id, now := "BIGSERIAL PRIMARY KEY", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
	if db.sqlite {
		id, now = "INTEGER PRIMARY KEY AUTOINCREMENT", "(CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER))"
	}
	return db.inTx(ctx, func(tx *sql.Tx) error {
		if !db.sqlite {
			// IF NOT EXISTS alone fails when two processes start at the same time.
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(20261122)"); err != nil {
				return err
			}
		}
		for _, statement := range []string{
			db.marks.Schema(),
			// Each order of a tenant must be invoiced, in order and once.
			"CREATE TABLE IF NOT EXISTS tenants (tenant TEXT PRIMARY KEY, ordered BIGINT NOT NULL, invoiced BIGINT NOT NULL)",
			// A real table also has a unique key on tenant and number. Here it would hide from
			// verify what the fence has let through.
			"CREATE TABLE IF NOT EXISTS invoices (id " + id + ", tenant TEXT NOT NULL, number BIGINT NOT NULL," +
				" shard BIGINT NOT NULL, token BIGINT NOT NULL, member TEXT NOT NULL, written BIGINT NOT NULL DEFAULT " + now + ")",
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

func (db *database) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// openInvoices is how many invoices remain to be written, by tenant.
type openInvoices map[string]int64

// open returns the tenants with open invoices for which mine returns true.
func (db *database) open(ctx context.Context, mine func(tenant string) bool) (openInvoices, error) {
	rows, err := db.QueryContext(ctx, "SELECT tenant, ordered - invoiced FROM tenants WHERE ordered > invoiced")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := openInvoices{}
	for rows.Next() {
		var tenant string
		var open int64
		if err := rows.Scan(&tenant, &open); err != nil {
			return nil, err
		}
		if mine(tenant) {
			all[tenant] = open
		}
	}
	return all, rows.Err()
}

// writer identifies who writes: the owner of a shard, in the term with this token.
type writer struct {
	group  string
	shard  int
	token  uint64
	member string
}

// batch is how many invoices are written in one transaction.
const batch = 20

// write writes the next invoices of a tenant and returns how many it has written, or fence.ErrStale
// if a later owner has written for the tenant.
func (db *database) write(ctx context.Context, tenant string, by writer) (n int64, err error) {
	err = db.inTx(ctx, func(tx *sql.Tx) error {
		// Guard must come first: it locks the tenant's mark. After that no former owner can write,
		// so what is read below is final.
		if err := db.marks.Guard(ctx, tx, by.group+" "+tenant, by.token); err != nil {
			return err
		}
		var ordered, invoiced int64
		if err := tx.QueryRowContext(ctx, "SELECT ordered, invoiced FROM tenants WHERE tenant = $1", tenant).Scan(&ordered, &invoiced); err != nil {
			return err
		}
		for n = 0; n < batch && invoiced < ordered; n++ {
			invoiced++
			if _, err := tx.ExecContext(ctx, "INSERT INTO invoices (tenant, number, shard, token, member) VALUES ($1, $2, $3, $4, $5)",
				tenant, invoiced, by.shard, int64(by.token), by.member); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE tenants SET invoiced = $1 WHERE tenant = $2", invoiced, tenant)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
