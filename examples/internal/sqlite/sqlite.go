// Package sqlite has what the examples need beyond the SQLite driver so that several processes can
// share one file.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"time"
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

// Open calls open, which uses a database for the first time, until it returns something other than
// SQLITE_BUSY or ctx ends. When several processes open a new file at once, one of them makes it a
// WAL database, and SQLite refuses the others at once, in spite of its busy_timeout.
func Open(ctx context.Context, open func(context.Context) error) error {
	for {
		err := open(ctx)
		if !busy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// busy reports whether err is SQLITE_BUSY or one of its extended codes.
func busy(err error) bool {
	var coded interface{ Code() int }
	return errors.As(err, &coded) && coded.Code()&0xff == 5
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
