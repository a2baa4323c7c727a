package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
)

// Dialect is a database's dialect of SQL.
type Dialect string

// The dialects that are tested.
const (
	PostgreSQL Dialect = "postgresql"
	SQLite     Dialect = "sqlite" // 3.35 or later
	MySQL      Dialect = "mysql"  // MariaDB too, where it is tested
)

// Tx is a transaction of database/sql, or of what is built on it: *sql.Tx, sqlx.Tx, the
// Statement.ConnPool of a gorm.DB in a transaction, the Tx in a bun.Tx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Row is the row that a statement has returned, such as a pgx.Row.
type Row interface {
	Scan(dest ...any) error
}

// SQL fences transactions with a small table of marks, one row per resource. Safe for
// concurrent use.
type SQL struct {
	table  string
	schema string
	// raise makes the mark the larger of itself and the token. It writes the row
	// also when nothing changes: the lock that this takes is what lets the
	// transactions of two leaders come only one after the other.
	raise string
	// newest reads the mark behind raise; empty: raise returns it.
	newest string
}

// NewSQL names the dialect and the table; an empty table means "mandate_fence". It
// does no I/O.
func NewSQL(dialect Dialect, table string) (*SQL, error) {
	if table == "" {
		table = "mandate_fence"
	}
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("fence: table %q: letters, digits and _ only, with a schema and a dot before it if need be", table)
	}
	s := &SQL{table: table, schema: schemaOf(table, "VARCHAR(255)", "")}
	// What no fence writes, such as a number below zero, stays, to be refused.
	conflict := " ON CONFLICT (resource) DO UPDATE SET token = CASE WHEN %s THEN mark.token ELSE %s(mark.token, excluded.token) END RETURNING token"
	switch dialect {
	case PostgreSQL:
		s.raise = "INSERT INTO " + table + " AS mark (resource, token) VALUES ($1, $2)" + fmt.Sprintf(conflict, "mark.token < 0", "GREATEST")
	case SQLite:
		s.raise = "INSERT INTO " + table + " AS mark (resource, token) VALUES (?1, ?2)" + fmt.Sprintf(conflict, "mark.token < 0 OR typeof(mark.token) <> 'integer'", "MAX")
	case MySQL:
		// Binary: its text ignores case, and resources would share a mark. InnoDB: other
		// engines have no transactions.
		s.schema = schemaOf(table, "VARBINARY(255)", " ENGINE=InnoDB")
		s.raise = "INSERT INTO " + table + " (resource, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = IF(token < 0, token, GREATEST(token, VALUES(token)))"
		s.newest = "SELECT token FROM " + table + " WHERE resource = ? FOR UPDATE"
	default:
		return nil, fmt.Errorf("fence: dialect %q is not known: use fence.PostgreSQL, fence.SQLite or fence.MySQL", dialect)
	}
	return s, nil
}

func schemaOf(table, text, engine string) string {
	return "CREATE TABLE IF NOT EXISTS " + table + " (\n" +
		"  resource " + text + " NOT NULL PRIMARY KEY,\n" +
		"  token BIGINT NOT NULL\n)" + engine
}

// A name can't be a parameter of a statement, so it must not be able to be more
// than a name.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*$`)

// Schema is the statement that makes the table, for those who keep their schema
// in migrations.
func (s *SQL) Schema() string { return s.schema }

// Create makes the table if there is none. db is a *sql.DB, *sql.Conn or *sql.Tx.
func (s *SQL) Create(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
},
) error {
	if _, err := db.ExecContext(ctx, s.schema); err != nil {
		return fmt.Errorf("fence: creating the table %s: %w", s.table, err)
	}
	return nil
}

// Guard lets the transaction continue when the token is not older than the resource's
// newest one, which it becomes with the commit. Otherwise it returns a [*StaleError],
// also for a mark that no fence has written, and the caller rolls back.
//
// Call it first in the transaction, before the reads on which the writes depend.
// Until the transaction ends, every other one of the same resource waits here: on
// PostgreSQL for as long as ctx, on SQLite for its busy_timeout, on MySQL for
// innodb_lock_wait_timeout; then the error is the driver's. Above READ COMMITTED on
// PostgreSQL a serialization failure may end the wait, and the first two writes ever to
// a mark a deadlock on MySQL; the caller tries those again, as always with these.
//
// tx must be a transaction, in which the caller writes afterwards: *sql.Tx, or what an ORM
// wraps around one. A *sql.DB is refused, because its statements share no transaction.
func (s *SQL) Guard(ctx context.Context, tx Tx, resource string, token uint64) error {
	if _, ok := tx.(*sql.DB); ok {
		return errors.New("fence: Guard needs a transaction, not a *sql.DB: begin one, and write in it")
	}
	return s.guard(resource, token, func() (mark string, err error) { return s.raiseTo(ctx, tx, resource, token) })
}

// GuardFunc is Guard for transactions that are not of database/sql: queryRow runs a
// statement in the transaction and returns its only row. Of pgx:
//
//	queryRow := func(ctx context.Context, query string, args ...any) fence.Row {
//		return tx.QueryRow(ctx, query, args...) // tx is a pgx.Tx
//	}
//	err := marks.GuardFunc(ctx, queryRow, "orders", term.Token())
//
// MySQL has no statement that writes a mark and returns it: there it is an error.
func (s *SQL) GuardFunc(ctx context.Context, queryRow func(ctx context.Context, query string, args ...any) Row, resource string, token uint64) error {
	if s.newest != "" {
		return errors.New("fence: GuardFunc does not work on MySQL: use Guard, with a transaction of database/sql")
	}
	return s.guard(resource, token, func() (string, error) {
		var mark any // drivers of their own don't turn numbers into text
		err := queryRow(ctx, s.raise, resource, int64(token)).Scan(&mark)
		if text, ok := mark.([]byte); ok {
			mark = string(text)
		}
		return fmt.Sprint(mark), err
	})
}

func (s *SQL) guard(resource string, token uint64, raise func() (mark string, err error)) error {
	if err := checkToken(token); err != nil {
		return err
	}
	if resource == "" || len(resource) > 255 {
		return fmt.Errorf("fence: a resource needs a name of 1 to 255 bytes, not of %d", len(resource))
	}
	mark, err := raise()
	if err != nil {
		return fmt.Errorf("fence: raising the mark of %s in %s: %w", resource, s.table, err)
	}
	return judge(resource, mark, token)
}

// raiseTo returns the mark as text: SQLite keeps anything in any column.
func (s *SQL) raiseTo(ctx context.Context, tx Tx, resource string, token uint64) (mark string, err error) {
	if s.newest == "" {
		err = tx.QueryRowContext(ctx, s.raise, resource, int64(token)).Scan(&mark)
		return mark, err
	}
	if _, err := tx.ExecContext(ctx, s.raise, resource, int64(token)); err != nil {
		return "", err
	}
	err = tx.QueryRowContext(ctx, s.newest, resource).Scan(&mark)
	return mark, err
}
