package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
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
	must(t, err)
	defer conn.Close(context.Background())
	marks := newMarks(t, fence.PostgreSQL, "pgx_marks")
	_, err = conn.Exec(ctx, marks.Schema())
	must(t, err)
	guard := func(token uint64, end func(pgx.Tx) error) error {
		tx, err := conn.Begin(ctx)
		must(t, err)
		guarded := marks.GuardFunc(ctx, pgxRow(tx), "bills", token)
		must(t, end(tx))
		return guarded
	}
	testPgxOnce(t, ctx, conn)
	commit := func(tx pgx.Tx) error { return tx.Commit(ctx) }
	rollback := func(tx pgx.Tx) error { return tx.Rollback(ctx) }
	for _, err := range []error{guard(5, commit), guard(1794204187000, commit), guard(1794204187002, rollback), guard(1794204187001, commit)} {
		must(t, err)
	}
	testfence.WantStale(t, guard(1794204187000, rollback), 1794204187000, 1794204187001)
	_, err = conn.Exec(ctx, "UPDATE pgx_marks SET token = -1")
	must(t, err)
	if err := guard(1<<53-1, rollback); !errors.Is(err, fence.ErrForeignMark) {
		t.Errorf("a mark that no fence wrote: %v", err)
	}
}

// An ORM's transaction, and adapters, work as the ones below them; what is no transaction
// guards nothing, and is refused.
func TestOtherTransactions(t *testing.T) {
	db := openDB(t, "sqlite", ":memory:")
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	marks := newMarks(t, fence.SQLite, "")
	must(t, marks.Create(t.Context(), db))
	if err := marks.Guard(t.Context(), db, "bills", 99); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a *sql.DB: %v", err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback()
	queryRow := func(ctx context.Context, query string, args ...any) fence.Row {
		return tx.QueryRowContext(ctx, query, args...)
	}
	must(t, marks.Guard(t.Context(), orm{tx}, "bills", 7))
	testfence.WantStale(t, marks.GuardFunc(t.Context(), queryRow, "bills", 6), 6, 7)
	must(t, marks.GuardFunc(t.Context(), queryRow, "bills", 8))
	testfence.WantStale(t, marks.Guard(t.Context(), orm{tx}, "bills", 7), 7, 8)
	for _, token := range []uint64{0, 1 << 53} {
		if err := marks.GuardFunc(t.Context(), queryRow, "bills", token); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("token %d: %v, want another error", token, err)
		}
	}

	mysql := newMarks(t, fence.MySQL, "")
	if err := mysql.GuardFunc(t.Context(), queryRow, "bills", 9); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("on MySQL: %v", err)
	}
}

// A tick that was taken by pgx is taken.
func testPgxOnce(t *testing.T, ctx context.Context, conn *pgx.Conn) {
	once, err := fence.NewOnceSQL(fence.PostgreSQL, "pgx_tick")
	must(t, err)
	_, err = conn.Exec(ctx, once.Schema())
	must(t, err)
	tick := fence.Tick{Job: "mail", At: time.Now(), Token: 5}
	for i, want := range []error{nil, fence.ErrRan} {
		tx, err := conn.Begin(ctx)
		must(t, err)
		if err := once.TakeFunc(ctx, pgxRow(tx), tick); !errors.Is(err, want) {
			t.Errorf("attempt %d: %v", i, err)
		}
		must(t, tx.Commit(ctx))
	}
}

// Redis fails over to a replica that lags: it never heard of the renewals, so its copy of the lock ends, and a second
// leader is elected on it while the first goes on with the old master. Both write to PostgreSQL as fast as they can:
// no row of the old leader comes after one of the new.
func TestStaleReplicaReal(t *testing.T) {
	t.Parallel()
	db := openDB(t, "pgx", servertest.Postgres(t))
	marks := newMarks(t, fence.PostgreSQL, "")
	byGuard := func(ctx context.Context, tx *sql.Tx, token uint64) error {
		return marks.Guard(ctx, tx, "orders", token)
	}
	schema, raise := recipe(t)
	byHand := func(ctx context.Context, tx *sql.Tx, token uint64) error {
		var newest int64
		err := tx.QueryRowContext(ctx, raise, int64(token)).Scan(&newest)
		if errors.Is(err, sql.ErrNoRows) {
			return fence.ErrStale
		}
		return err
	}
	for name, f := range map[string]struct {
		schema string
		guard  func(context.Context, *sql.Tx, uint64) error
	}{"fence.SQL": {marks.Schema(), byGuard}, "the SQL of docs/recipes.md": {schema, byHand}} {
		t.Run(name, func(t *testing.T) {
			exec(t, db, "DROP TABLE IF EXISTS mandate_fence, orders")
			exec(t, db, f.schema)
			exec(t, db, "CREATE TABLE orders (n BIGSERIAL, token BIGINT NOT NULL)")
			failOver(t, db, f.guard)
		})
	}
}

// recipe returns the statements that docs/recipes.md shows, so that what users copy is what is tested.
func recipe(t *testing.T) (schema, raise string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/recipes.md")
	must(t, err)
	found := regexp.MustCompile("(?s)```sql\n(.*?);.*?(INSERT INTO mandate_fence.*?);").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/recipes.md shows no SQL for a fence")
	}
	return string(found[1]), string(found[2])
}

// writer is a leader that writes rows as fast as it can.
type writer struct {
	*testcluster.Candidate
	db             *sql.DB
	guard          func(context.Context, *sql.Tx, uint64) error
	wrote, refused atomic.Int64
}

func (w *writer) work(ctx context.Context, term *elector.Term) error {
	for ctx.Err() == nil {
		switch err := w.write(ctx, term.Token()); {
		case err == nil:
			w.wrote.Add(1)
		case errors.Is(err, fence.ErrStale):
			w.refused.Add(1)
		case ctx.Err() == nil:
			return err
		}
	}
	return ctx.Err()
}

func (w *writer) write(ctx context.Context, token uint64) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := w.guard(ctx, tx, token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (token) VALUES ($1)", int64(token)); err != nil {
		return err
	}
	return tx.Commit()
}

func failOver(t *testing.T, db *sql.DB, guard func(context.Context, *sql.Tx, uint64) error) {
	const patience = 20 * time.Second
	master, replica := servertest.Redis(t, "--repl-diskless-sync-delay", "0"), servertest.Redis(t)
	replica.Do(t, "REPLICAOF", "127.0.0.1", master.Port)
	servertest.Eventually(t, patience, "the replica follows", func() bool {
		return strings.Contains(replica.Do(t, "INFO", "replication").(string), "master_link_status:up")
	})
	old := start(t, master.URL(), &writer{db: db, guard: guard})
	servertest.Eventually(t, patience, "the first leader writes", func() bool { return old.wrote.Load() > 10 })
	replica.Do(t, "REPLICAOF", "NO", "ONE") // the failover: the master lives on, and the old leader talks to it
	young := start(t, replica.URL(), &writer{db: db, guard: guard})
	servertest.Eventually(t, patience, "two leaders at once, of whom the older is refused", func() bool {
		return old.IsLeader() && young.IsLeader() && young.wrote.Load() > 10 && old.refused.Load() > 10
	})
	master.Do(t, "REPLICAOF", "127.0.0.1", replica.Port) // the failover is over: the old master is a replica
	servertest.Eventually(t, patience, "the old leader stands down", func() bool { return !old.IsLeader() })

	var stale int
	query := "SELECT count(*) FROM (SELECT token, max(token) OVER (ORDER BY n) AS newest FROM orders) AS o WHERE token < newest"
	if err := db.QueryRowContext(t.Context(), query).Scan(&stale); err != nil || stale != 0 {
		t.Errorf("%d rows of the old leader after one of the new (%v)", stale, err)
	}
	if one, two := old.Elected(0).Token(), young.Elected(0).Token(); one >= two {
		t.Errorf("tokens %d, then %d", one, two)
	}
	t.Logf("old leader: %d rows, then %d refused; new leader: %d rows; stale rows: %d", old.wrote.Load(), old.refused.Load(), young.wrote.Load(), stale)
}

// start runs a candidate until the test ends: the former leader can't release its lock on a replica.
func start(t *testing.T, url string, w *writer) *writer {
	t.Helper()
	w.Candidate = testcluster.NewCandidate(t, testcluster.Open(t, url), "", func(cfg *elector.Config) { cfg.Lease = 3 * time.Second })
	w.Begin(w.work)
	return w
}
