// Package sqlite has what the examples need beyond the SQLite driver so that several processes can
// share one file.
package sqlite

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
)

// DSN returns the data source name of the database in the file at path. Readers never wait for the
// writer (WAL), and writers wait for each other for up to 10 s instead of failing.
func DSN(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "_txlock=immediate" +
		"&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"}
	return u.String()
}

// InTx calls f in a transaction, which is committed if f returns nil.
func InTx(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
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

// Rows returns the rows of a query, each of which is read into what to returns.
func Rows[T any](ctx context.Context, db *sql.DB, to func(*T) []any, query string, args ...any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var row T
		if err := rows.Scan(to(&row)...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
