package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	_ "modernc.org/sqlite" // SQLite, in Go

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/examples/internal/sqlite"
)

const group = "invoices"

// database has the tenants, their invoices, and a mark for each tenant, which is the newest token
// that has written.
type database struct {
	*sql.DB
	marks *fence.SQL
}

// invoice is a row of the table, or who writes it: the owner of a shard, in the term with this token.
type invoice struct {
	tenant string
	number int
	shard  int
	token  uint64
	member string
}

// openDatabase opens an SQLite file, and creates the missing tables.
func openDatabase(ctx context.Context, path string) (*database, error) {
	conn, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		return nil, err
	}
	db := &database{DB: conn}
	if db.marks, err = fence.NewSQL(fence.SQLite, "marks"); err == nil {
		_, err = conn.ExecContext(ctx, db.marks.Schema()+`;
			CREATE TABLE IF NOT EXISTS tenants (tenant TEXT PRIMARY KEY, ordered INTEGER NOT NULL, invoiced INTEGER NOT NULL);
			CREATE TABLE IF NOT EXISTS invoices (id INTEGER PRIMARY KEY AUTOINCREMENT,
				tenant TEXT NOT NULL, number INTEGER NOT NULL, shard INTEGER NOT NULL, token INTEGER NOT NULL, member TEXT NOT NULL)`)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the database: %w", err)
	}
	return db, nil
}

// open returns the tenants with open invoices.
func (db *database) open(ctx context.Context) ([]string, error) {
	return sqlite.Rows(ctx, db.DB, func(tenant *string) []any { return []any{tenant} }, "SELECT tenant FROM tenants WHERE ordered > invoiced")
}

// write writes the open invoices of a tenant, or returns fence.ErrStale if a later owner has written
// for the tenant.
func (db *database) write(ctx context.Context, tenant string, by invoice) error {
	return sqlite.InTx(ctx, db.DB, func(tx *sql.Tx) error {
		// Guard must come first: it locks the tenant's mark. After that no former owner can write,
		// so what is read below is final.
		if err := db.marks.Guard(ctx, tx, group+" "+tenant, by.token); err != nil {
			return err
		}
		var ordered, invoiced int
		if err := tx.QueryRowContext(ctx, "SELECT ordered, invoiced FROM tenants WHERE tenant = $1", tenant).Scan(&ordered, &invoiced); err != nil {
			return err
		}
		for invoiced < ordered {
			invoiced++
			if _, err := tx.ExecContext(ctx, "INSERT INTO invoices (tenant, number, shard, token, member) VALUES ($1, $2, $3, $4, $5)",
				tenant, invoiced, by.shard, int64(by.token), by.member); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE tenants SET invoiced = $1 WHERE tenant = $2", invoiced, tenant)
		return err
	})
}

// sell plays the shop, which knows nothing of shards: tenants order until ctx ends, and each order is
// to be invoiced.
func (db *database) sell(ctx context.Context, tenants int, every time.Duration) error {
	for ; ctx.Err() == nil; cli.Pause(ctx, every) {
		if err := db.order(ctx, fmt.Sprint("tenant-", rand.IntN(tenants)+1)); err != nil {
			return err
		}
	}
	return nil
}

func (db *database) order(ctx context.Context, tenant string) error {
	_, err := db.ExecContext(context.WithoutCancel(ctx), "INSERT INTO tenants (tenant, ordered, invoiced) VALUES ($1, 1, 0) "+
		"ON CONFLICT (tenant) DO UPDATE SET ordered = tenants.ordered + 1", tenant)
	return err
}

// verify waits until all orders are invoiced, and checks that each was invoiced exactly once, in its
// turn, and that no former owner of a tenant has written after its successor.
func (db *database) verify(ctx context.Context, out io.Writer) error {
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); cli.Pause(ctx, 100*time.Millisecond) {
		if open, err := db.open(ctx); err != nil || len(open) == 0 {
			break
		}
	}
	ordered, moves := 0, 0
	if err := db.QueryRowContext(ctx, "SELECT COALESCE(SUM(ordered), 0) FROM tenants").Scan(&ordered); err != nil {
		return err
	}
	invoices, err := sqlite.Rows(ctx, db.DB, func(i *invoice) []any { return []any{&i.tenant, &i.number, &i.shard, &i.token, &i.member} },
		"SELECT tenant, number, shard, token, member FROM invoices ORDER BY id")
	if err != nil {
		return err
	}
	var problems []error
	last, owner := map[string]invoice{}, map[int]string{}
	for _, i := range invoices {
		before := last[i.tenant]
		last[i.tenant] = i
		if was := owner[i.shard]; was != "" && was != i.member {
			moves++
		}
		owner[i.shard] = i.member
		if i.number != before.number+1 {
			problems = append(problems, fmt.Errorf("lost or doubled: %s: invoice %d after %d", i.tenant, i.number, before.number))
		}
		if i.token < before.token || i.token == before.token && i.member != before.member {
			problems = append(problems, fmt.Errorf("crossed: %s: %s wrote with token %d after %s with %d", i.tenant, i.member, i.token, before.member, before.token))
		}
	}
	if ordered == 0 || ordered != len(invoices) {
		problems = append(problems, fmt.Errorf("%d orders, %d invoices", ordered, len(invoices)))
	}
	fmt.Fprintf(out, "%d orders, %d invoices, %d times by another member than before; lost, doubled or crossed: %d\n", ordered, len(invoices), moves, len(problems))
	return errors.Join(problems...)
}
