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
// refused, a rollback takes the mark back, and what no fence wrote refuses every token.
func testPgx(t *testing.T, url string) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	marks, err := fence.NewSQL(fence.PostgreSQL, "pgx_marks")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, marks.Schema()); err != nil {
		t.Fatal(err)
	}
	guard := func(token uint64, end func(pgx.Tx) error) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		guarded := marks.GuardFunc(ctx, pgxRow(tx), "bills", token)
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		return guarded
	}
	testPgxOnce(t, ctx, conn)
	commit := func(tx pgx.Tx) error { return tx.Commit(ctx) }
	rollback := func(tx pgx.Tx) error { return tx.Rollback(ctx) }
	for _, err := range []error{guard(5, commit), guard(1794204187000, commit), guard(1794204187002, rollback), guard(1794204187001, commit)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	testfence.WantStale(t, guard(1794204187000, rollback), 1794204187000, 1794204187001)
	if _, err := conn.Exec(ctx, "UPDATE pgx_marks SET token = -1"); err != nil {
		t.Fatal(err)
	}
	if err := guard(1<<53-1, rollback); !errors.Is(err, fence.ErrForeignMark) {
		t.Errorf("a mark that no fence wrote: %v", err)
	}
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

// A tick that was taken by pgx is taken.
func testPgxOnce(t *testing.T, ctx context.Context, conn *pgx.Conn) {
	once, err := fence.NewOnceSQL(fence.PostgreSQL, "pgx_tick")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, once.Schema()); err != nil {
		t.Fatal(err)
	}
	tick := fence.Tick{Job: "mail", At: time.Now(), Every: time.Hour, Token: 5}
	for i, want := range []error{nil, fence.ErrRan} {
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := once.TakeFunc(ctx, pgxRow(tx), tick); !errors.Is(err, want) {
			t.Errorf("attempt %d: %v", i, err)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
