// Package sqlite is what the examples need of SQLite beyond its driver, so that several
// processes can share one file.
package sqlite

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"time"
)

// DSN names the database in the file at path: readers never wait for the writer (WAL),
// and writers wait for each other, up to 10 s, instead of failing.
func DSN(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "_txlock=immediate" +
		"&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"}
	return u.String()
}

// Open calls open, which uses a database for the first time, until it fails with another
// error than SQLITE_BUSY or ctx ends: when several processes open a new file at once, one
// of them makes it a WAL database, and SQLite turns the others away without waiting, for
// all its busy_timeout.
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

// busy reports whether err says SQLITE_BUSY, in one of its extended forms too.
func busy(err error) bool {
	var coded interface{ Code() int }
	return errors.As(err, &coded) && coded.Code()&0xff == 5
}
