// Package sqltest contains the tests of fence's SQL marks on PostgreSQL, MariaDB and
// SQLite. It is a module of its own, so that importing mandate does not add three
// database drivers to a program's module graph.
package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // MySQL and MariaDB
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // SQLite

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

func TestMain(m *testing.M) { testleak.VerifyTestMain(m) }

func TestSQLite(t *testing.T) {
	sqlSuite(t, fence.SQLite, "sqlite",
		"file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)")
}

func TestPostgresReal(t *testing.T) {
	t.Parallel()
	url := servertest.Postgres(t)
	sqlSuite(t, fence.PostgreSQL, "pgx", url)
	t.Run("pgx without database/sql", func(t *testing.T) { testPgx(t, url) })
	t.Run("replicas that start together create the table", func(t *testing.T) {
		db, marks := openDB(t, "pgx", url), newMarks(t, fence.PostgreSQL, "together")
		for range 20 {
			exec(t, db, "DROP TABLE IF EXISTS together")
			var replicas errgroup.Group
			for range 6 {
				replicas.Go(func() error { return marks.Create(t.Context(), db) })
			}
			must(t, replicas.Wait())
		}
	})
}

func TestMySQLReal(t *testing.T) {
	t.Parallel()
	sqlSuite(t, fence.MySQL, "mysql", servertest.MariaDB(t))
}

// sqlStage is one database with a table that leaders write to.
type sqlStage struct {
	db    *sql.DB
	marks *fence.SQL
	bind  string // how the dialect calls the first two parameters

	dialect fence.Dialect
}

// openDB opens a database until the end of the test.
func openDB(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func newMarks(t *testing.T, dialect fence.Dialect, table string) *fence.SQL {
	t.Helper()
	marks, err := fence.NewSQL(dialect, table)
	must(t, err)
	return marks
}

func sqlSuite(t *testing.T, dialect fence.Dialect, driver, dsn string) {
	db, marks := openDB(t, driver, dsn), newMarks(t, dialect, "")
	for range 2 { // again and again is fine
		must(t, marks.Create(t.Context(), db))
	}
	s := &sqlStage{db, marks, "$1, $2", dialect}
	if dialect == fence.MySQL {
		s.bind = "?, ?"
	}
	for name, test := range map[string]func(t *testing.T, s *sqlStage){
		"older tokens are refused":            testSQLRefuses,
		"stopped before the guard":            testSQLBefore,
		"read something before the guard":     testSQLSnapshot,
		"stopped inside its transaction":      testSQLInside,
		"a rollback takes the mark back":      testSQLRollback,
		"resources have marks of their own":   testSQLResources,
		"a mark that no fence wrote":          testSQLForeign,
		"two leaders write as fast as it can": testSQLRace,
		"a tick is taken once":                testSQLOnce,
	} {
		t.Run(name, func(t *testing.T) {
			exec(t, db, "DROP TABLE IF EXISTS writes")
			exec(t, db, "CREATE TABLE writes (n BIGINT NOT NULL, token BIGINT NOT NULL)")
			exec(t, db, "DELETE FROM mandate_fence")
			test(t, s)
		})
	}
}

func exec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func (s *sqlStage) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := s.db.BeginTx(context.Background(), nil)
	must(t, err)
	return tx
}

// put writes a row whose number is one more than the last that this transaction sees.
func (s *sqlStage) put(tx *sql.Tx, token uint64) error {
	var n int64
	if err := tx.QueryRow("SELECT COALESCE(MAX(n), 0) + 1 FROM writes").Scan(&n); err != nil {
		return err
	}
	_, err := tx.Exec("INSERT INTO writes (n, token) VALUES ("+s.bind+")", n, int64(token))
	return err
}

// write is a whole guarded transaction.
func (s *sqlStage) write(token uint64) error {
	tx, err := s.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.marks.Guard(context.Background(), tx, "writes", token); err != nil {
		return err
	}
	if err := s.put(tx, token); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *sqlStage) wantTokens(t *testing.T, want ...uint64) {
	t.Helper()
	if got := s.tokens(t); !slices.Equal(got, want) {
		t.Fatalf("written by %v, want %v", got, want)
	}
}

func (s *sqlStage) tokens(t *testing.T) (got []uint64) {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), "SELECT n, token FROM writes ORDER BY n, token")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var n, token int64
		must(t, rows.Scan(&n, &token))
		if n != int64(len(got))+1 {
			t.Fatalf("row %d has the number %d: two transactions saw the same state", len(got)+1, n)
		}
		got = append(got, uint64(token))
	}
	must(t, rows.Err())
	return got
}

func testSQLRefuses(t *testing.T, s *sqlStage) {
	for _, step := range []struct {
		token, newest uint64
		stale         bool
	}{{5, 5, false}, {5, 5, false}, {4, 5, true}, {1794204187000, 1794204187000, false}, {1794204186999, 1794204187000, true},
		{1<<53 - 1, 1<<53 - 1, false}, {1<<53 - 2, 1<<53 - 1, true}} {
		err := s.write(step.token)
		if step.stale {
			testfence.WantStale(t, err, step.token, step.newest)
		} else if err != nil {
			t.Fatalf("token %d: %v", step.token, err)
		}
	}
	s.wantTokens(t, 5, 5, 1794204187000, 1<<53-1)
	for _, token := range []uint64{0, 1 << 53} {
		if err := s.write(token); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("token %d: %v, want another error", token, err)
		}
	}
}

// The old leader stops between being the leader and its first statement.
func testSQLBefore(t *testing.T, s *sqlStage) {
	old := s.begin(t)
	defer old.Rollback()
	must(t, s.write(6))
	testfence.WantStale(t, s.marks.Guard(t.Context(), old, "writes", 5), 5, 6)
	must(t, old.Rollback())
	must(t, s.write(6)) // a refusal leaves no lock behind
	s.wantTokens(t, 6, 6)
}

// The old leader has read something, as Guard's comment says not to, and so may see the
// state of that time: its successor's mark counts all the same.
func testSQLSnapshot(t *testing.T, s *sqlStage) {
	must(t, s.write(5))
	old := s.begin(t)
	defer old.Rollback()
	var n int
	if err := old.QueryRow("SELECT COUNT(*) FROM writes").Scan(&n); err != nil || n != 1 {
		t.Fatalf("%d writes, %v", n, err)
	}
	must(t, s.write(6))
	err := s.marks.Guard(t.Context(), old, "writes", 5)
	if s.dialect == fence.SQLite { // which lets nobody write who has read an older state
		if err == nil {
			t.Error("the old leader may write")
		}
		return
	}
	testfence.WantStale(t, err, 5, 6)
}

// The old leader stops after its guard: its successor waits, and sees what the old
// one wrote.
func testSQLInside(t *testing.T, s *sqlStage) {
	old := s.begin(t)
	defer old.Rollback()
	must(t, s.marks.Guard(t.Context(), old, "writes", 5))
	result := make(chan error, 1)
	go func() { result <- s.write(6) }()
	select {
	case err := <-result:
		t.Fatalf("the successor did not wait: %v", err)
	case <-time.After(200 * time.Millisecond): // it can only be too short to catch a fault
	}
	must(t, s.put(old, 5))
	must(t, old.Commit())
	if err := <-result; err != nil {
		t.Fatalf("the successor: %v", err)
	}
	testfence.WantStale(t, s.write(5), 5, 6)
	s.wantTokens(t, 5, 6)
}

func testSQLRollback(t *testing.T, s *sqlStage) {
	must(t, s.write(5))
	tx := s.begin(t)
	must(t, s.marks.Guard(t.Context(), tx, "writes", 9))
	must(t, tx.Rollback())
	must(t, s.write(5)) // token 9 has written nothing
}

func testSQLResources(t *testing.T, s *sqlStage) {
	for _, step := range []struct {
		resource string
		token    uint64
		ok       bool
	}{{"a", 5, true}, {"b", 3, true}, {"a", 4, false}, {"b", 4, true}, {"A", 1, true}, {"a ", 1, true}, {"", 5, false}, {strings.Repeat("x", 256), 5, false}} {
		tx := s.begin(t)
		err := s.marks.Guard(t.Context(), tx, step.resource, step.token)
		if (err == nil) != step.ok {
			t.Errorf("%.10q, token %d: %v", step.resource, step.token, err)
		}
		must(t, tx.Commit())
	}
}

// What no fence has written refuses every token, and stays to be looked at.
func testSQLForeign(t *testing.T, s *sqlStage) {
	values := map[string]string{"-5": "-5", "9007199254740992": "9007199254740992", "9223372036854775807": "9223372036854775807"}
	if s.dialect == fence.SQLite { // keeps anything in any column
		values["'some text'"], values["7000000.5"], values["-1.5"] = "some text", "7.0000005e+06", "-1.5"
	}
	for value, text := range values {
		exec(t, s.db, "DELETE FROM mandate_fence")
		exec(t, s.db, "INSERT INTO mandate_fence (resource, token) VALUES ('writes', "+value+")")
		for _, token := range []uint64{5, 1<<53 - 1} {
			testfence.WantForeign(t, s.write(token), token, "writes", `"`+text+`", which is no token`)
		}
		var is bool
		if err := s.db.QueryRow("SELECT token = " + value + " FROM mandate_fence").Scan(&is); err != nil || !is {
			t.Errorf("the mark %s was written: %v", value, err)
		}
	}
	s.wantTokens(t)
}

// However the transactions of two leaders fall, the tokens of what was written
// never go back, and no two saw the same state.
func testSQLRace(t *testing.T, s *sqlStage) {
	must(t, s.write(5)) // two first writes at once may deadlock on MySQL
	var wg sync.WaitGroup
	for i, token := range []uint64{5, 5, 6, 6} {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond) // the younger ones begin in the middle
			for range 25 {
				if err := s.write(token); errors.Is(err, fence.ErrStale) && token == 5 {
					return
				} else if err != nil {
					t.Errorf("token %d: %v", token, err)
					return
				}
			}
		})
	}
	wg.Wait()
	got := s.tokens(t)
	if !slices.IsSorted(got) {
		t.Fatalf("written by %v", got)
	}
	if len(got) < 50 {
		t.Fatalf("%d writes: the leader wrote less than its 50", len(got))
	}
}
