package fence

import (
	"cmp"
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

// Tx is a transaction of database/sql, or of a package that is built on it: *sql.Tx, sqlx.Tx,
// the Statement.ConnPool of a gorm.DB in a transaction, the Tx in a bun.Tx.
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
	// raise sets the mark to the larger of itself and the token. It writes the row even
	// when nothing changes: the row lock that this takes makes the transactions of two
	// leaders run one after the other.
	raise statement
}

// statement writes a row, and returns what its mark is then.
type statement struct {
	write string
	read  string // returns the mark; empty: write itself does
}

// NewSQL returns a fence with its marks in the given table; an empty name means "mandate_fence".
// It does no I/O.
func NewSQL(dialect Dialect, table string) (*SQL, error) {
	if table = cmp.Or(table, "mandate_fence"); !tableName.MatchString(table) {
		return nil, fmt.Errorf("fence: table %q: letters, digits and _ only, with a schema and a dot before it if need be", table)
	}
	s, text, engine := &SQL{table: table}, "VARCHAR(255)", ""
	// A value that no fence writes, such as a negative number, is not replaced, so that judge refuses it.
	conflict := " ON CONFLICT (resource) DO UPDATE SET token = CASE WHEN %s THEN mark.token ELSE %s(mark.token, excluded.token) END RETURNING token"
	switch dialect {
	case PostgreSQL:
		s.raise.write = "INSERT INTO " + table + " AS mark (resource, token) VALUES ($1, $2)" + fmt.Sprintf(conflict, "mark.token < 0", "GREATEST")
	case SQLite:
		s.raise.write = "INSERT INTO " + table + " AS mark (resource, token) VALUES (?1, ?2)" + fmt.Sprintf(conflict, "mark.token < 0 OR typeof(mark.token) <> 'integer'", "MAX")
	case MySQL:
		// VARBINARY, because MySQL compares text without regard to case, so that resources would
		// share a mark. InnoDB, because other engines have no transactions.
		text, engine = "VARBINARY(255)", " ENGINE=InnoDB"
		s.raise.write = "INSERT INTO " + table + " (resource, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = IF(token < 0, token, GREATEST(token, VALUES(token)))"
		s.raise.read = "SELECT token FROM " + table + " WHERE resource = ? FOR UPDATE"
	default:
		return nil, fmt.Errorf("fence: dialect %q is not known: use fence.PostgreSQL, fence.SQLite or fence.MySQL", dialect)
	}
	s.schema = fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n  resource %s NOT NULL PRIMARY KEY,\n  token BIGINT NOT NULL\n)%s", table, text, engine)
	return s, nil
}

// tableName matches valid table names. A name can't be a parameter of a statement, so it must
// not be able to inject SQL.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*$`)

// Schema returns the statement that creates the table, for users who keep their schema in
// migrations.
func (s *SQL) Schema() string { return s.schema }

// Create creates the table if it does not exist, also when several replicas do so at once. db is a *sql.DB or *sql.Conn.
// In a *sql.Tx on PostgreSQL, Create fails if another replica creates the table meanwhile.
func (s *SQL) Create(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
},
) error {
	_, err := db.ExecContext(ctx, s.schema)
	if err == nil {
		return nil
	}
	// PostgreSQL's IF NOT EXISTS fails when another replica commits the table after it has looked. Now the table is there.
	if _, again := db.ExecContext(ctx, s.schema); again != nil {
		return fmt.Errorf("fence: creating the table %s: %w", s.table, err)
	}
	return nil
}

// Guard returns nil if the token is not older than the newest token of the resource. The token
// becomes the newest one when the transaction commits. Otherwise, and for a mark that no fence has
// written, Guard returns a [*StaleError], and the caller must roll back.
//
// Call Guard first in the transaction, before the reads on which the writes depend. Until the
// transaction ends, Guard blocks in every other transaction on the same resource: on PostgreSQL
// until ctx ends, on SQLite for its busy_timeout, on MySQL for innodb_lock_wait_timeout; then it
// returns the driver's error. On PostgreSQL above READ COMMITTED the wait may end with a
// serialization failure, and on MySQL the first two writes ever to a mark may deadlock; the caller
// retries after these errors, as usual.
//
// tx must be the transaction in which the caller writes afterwards: *sql.Tx, or an ORM's wrapper
// of one. A *sql.DB is refused, because its statements share no transaction.
func (s *SQL) Guard(ctx context.Context, tx Tx, resource string, token uint64) error {
	return s.guard(resource, token, func() (mark string, err error) { return s.raise.run(ctx, tx, resource, int64(token)) })
}

// GuardFunc is Guard for transactions of packages other than database/sql. queryRow runs a
// statement in the transaction and returns its only row. With pgx:
//
//	queryRow := func(ctx context.Context, query string, args ...any) fence.Row {
//		return tx.QueryRow(ctx, query, args...) // tx is a pgx.Tx
//	}
//	err := marks.GuardFunc(ctx, queryRow, "orders", term.Token())
//
// On MySQL GuardFunc returns an error, because MySQL has no statement that writes a mark and
// returns it.
func (s *SQL) GuardFunc(ctx context.Context, queryRow func(ctx context.Context, query string, args ...any) Row, resource string, token uint64) error {
	return s.guard(resource, token, func() (string, error) { return s.raise.runFunc(ctx, queryRow, resource, int64(token)) })
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

// run runs the statement, whose first argument is the key of the row. It returns the mark as text, because a column
// in SQLite can hold any type.
func (s statement) run(ctx context.Context, tx Tx, args ...any) (mark string, err error) {
	if _, ok := tx.(*sql.DB); ok {
		return "", errors.New("this needs a transaction, not a *sql.DB: begin one, and write in it")
	}
	if s.read == "" {
		err = tx.QueryRowContext(ctx, s.write, args...).Scan(&mark)
		return mark, err
	}
	if _, err := tx.ExecContext(ctx, s.write, args...); err != nil {
		return "", err
	}
	err = tx.QueryRowContext(ctx, s.read, args[0]).Scan(&mark)
	return mark, err
}

// runFunc is run for transactions of packages other than database/sql.
func (s statement) runFunc(ctx context.Context, queryRow func(ctx context.Context, query string, args ...any) Row, args ...any) (string, error) {
	if s.read != "" {
		return "", errors.New("this does not work on MySQL: use a transaction of database/sql")
	}
	var mark any // unlike database/sql, other packages don't convert numbers to text
	err := queryRow(ctx, s.write, args...).Scan(&mark)
	if text, ok := mark.([]byte); ok {
		mark = string(text)
	}
	return fmt.Sprint(mark), err
}
