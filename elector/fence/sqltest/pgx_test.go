package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// orm is a transaction as ORMs hand it out: theirs, around one of database/sql.
type orm struct{ *sql.Tx }

var (
	_ fence.Tx = (*sql.Tx)(nil)
	_ fence.Tx = orm{}
)

// pgxRow is the adapter that Guard's documentation shows.
func pgxRow(tx pgx.Tx) func(context.Context, string, ...any) fence.Row {
	return func(ctx context.Context, query string, args ...any) fence.Row {
		return tx.QueryRow(ctx, query, args...)
	}
}

// Programs that use pgx without database/sql are fenced like all others: an old token is
// refused, a rollback takes the mark back, and the transactions of two leaders come one
// after the other.
func TestPgxReal(t *testing.T) {
	ctx := t.Context()
	url := servertest.Postgres(t)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return conn
	}
	one, two := connect(), connect()
	marks, err := fence.NewSQL(fence.PostgreSQL, "pgx_marks")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Exec(ctx, marks.Schema()); err != nil {
		t.Fatal(err)
	}
	guard := func(conn *pgx.Conn, token uint64) (pgx.Tx, error) {
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return tx, marks.GuardFunc(ctx, pgxRow(tx), "bills", token)
	}
	end := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []uint64{5, 5, 1794204187000} {
		tx, err := guard(one, token)
		end(err)
		end(tx.Commit(ctx))
	}
	tx, err := guard(one, 7)
	testfence.WantStale(t, err, 7, 1794204187000)
	end(tx.Rollback(ctx))

	tx, err = guard(one, 1794204187002)
	end(err)
	end(tx.Rollback(ctx))
	tx, err = guard(one, 1794204187001) // the larger one was never committed
	end(err)

	waited := make(chan error, 1)
	go func() {
		tx, err := two.Begin(ctx)
		if err == nil {
			err = marks.GuardFunc(ctx, pgxRow(tx), "bills", 1794204187000)
			_ = tx.Rollback(ctx)
		}
		waited <- err
	}()
	select {
	case err := <-waited:
		t.Fatalf("the other leader did not wait: %v", err)
	case <-time.After(200 * time.Millisecond): // it can only be too short to catch a fault
	}
	end(tx.Commit(ctx))
	testfence.WantStale(t, <-waited, 1794204187000, 1794204187001)

	if _, err := one.Exec(ctx, "UPDATE pgx_marks SET token = -1"); err != nil {
		t.Fatal(err)
	}
	tx, err = guard(one, 1<<53-1)
	if !errors.Is(err, fence.ErrForeignMark) {
		t.Errorf("a mark that no fence wrote: %v", err)
	}
	end(tx.Rollback(ctx))
}

// An ORM's transaction, and adapters, work as the ones below them; what is no transaction
// guards nothing, and is refused.
func TestOtherTransactions(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	marks, err := fence.NewSQL(fence.SQLite, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := marks.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := marks.Guard(t.Context(), db, "bills", 99); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a *sql.DB: %v", err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	queryRow := func(ctx context.Context, query string, args ...any) fence.Row {
		return tx.QueryRowContext(ctx, query, args...)
	}
	if err := marks.Guard(t.Context(), orm{tx}, "bills", 7); err != nil {
		t.Error(err)
	}
	testfence.WantStale(t, marks.GuardFunc(t.Context(), queryRow, "bills", 6), 6, 7)
	if err := marks.GuardFunc(t.Context(), queryRow, "bills", 8); err != nil {
		t.Error(err)
	}
	testfence.WantStale(t, marks.Guard(t.Context(), orm{tx}, "bills", 7), 7, 8)
	for _, token := range []uint64{0, 1 << 53} {
		if err := marks.GuardFunc(t.Context(), queryRow, "bills", token); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("token %d: %v, want another error", token, err)
		}
	}

	mysql, err := fence.NewSQL(fence.MySQL, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := mysql.GuardFunc(t.Context(), queryRow, "bills", 9); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("on MySQL: %v", err)
	}
}
