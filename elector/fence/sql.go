package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
)

// Dialect is what the SQL of a database is called here.
type Dialect string

// The dialects that are tested.
const (
	PostgreSQL Dialect = "postgresql"
	SQLite     Dialect = "sqlite" // 3.24 or later
)

// SQL fences transactions of database/sql with a small table of marks, one row per
// resource. Safe for concurrent use.
type SQL struct {
	table         string
	schema, raise string
	newest        string
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
	var one, two string
	switch dialect {
	case PostgreSQL:
		one, two = "$1", "$2"
	case SQLite:
		one, two = "?1", "?2"
	default:
		return nil, fmt.Errorf("fence: dialect %q is not known: use fence.PostgreSQL or fence.SQLite", dialect)
	}
	return &SQL{
		table: table,
		schema: "CREATE TABLE IF NOT EXISTS " + table + " (\n" +
			"  resource VARCHAR(255) NOT NULL PRIMARY KEY,\n" +
			"  token    BIGINT       NOT NULL\n)",
		// An equal token writes the row too: the lock that this takes is what lets the
		// transactions of two leaders come only one after the other.
		raise: "INSERT INTO " + table + " AS mark (resource, token) VALUES (" + one + ", " + two + ") " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE mark.token <= excluded.token",
		newest: "SELECT token FROM " + table + " WHERE resource = " + one,
	}, nil
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

// Guard lets the transaction go on when the token is not older than the resource's
// newest one, which it becomes with the commit. Otherwise it returns a [*StaleError],
// and the caller rolls back.
//
// Call it first in the transaction, before the reads on which the writes depend.
// Until the transaction ends, every other one of the same resource waits here: on
// PostgreSQL for as long as ctx, on SQLite for its busy_timeout (then the error is the
// driver's SQLITE_BUSY). On PostgreSQL with an isolation above READ COMMITTED it may
// also fail with a serialization failure, which the caller tries again.
func (s *SQL) Guard(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := checkToken(token); err != nil {
		return err
	}
	if resource == "" || len(resource) > 255 {
		return fmt.Errorf("fence: a resource needs a name of 1 to 255 bytes, not of %d", len(resource))
	}
	res, err := tx.ExecContext(ctx, s.raise, resource, int64(token))
	if err != nil {
		return fmt.Errorf("fence: raising the mark of %s in %s: %w", resource, s.table, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence: raising the mark of %s in %s: %w", resource, s.table, err)
	}
	if n > 0 {
		return nil
	}
	stale := &StaleError{Resource: resource, Token: token}
	var newest int64
	// Refused all the same when the newest token can't be read: that is only for words.
	if err := tx.QueryRowContext(ctx, s.newest, resource).Scan(&newest); err != nil {
		return errors.Join(stale, err)
	}
	stale.Newest = uint64(newest)
	return stale
}
