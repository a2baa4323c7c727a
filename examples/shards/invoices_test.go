package main

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// A former owner of the tenant writes nothing, however late it wakes up: not before its
// successor has written, and not after it.
func TestFormerOwnerIsRefused(t *testing.T) {
	for name, where := range map[string]func() string{
		"SQLite":     func() string { return filepath.Join(t.TempDir(), "invoices.db") },
		"PostgreSQL": func() string { return servertest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := openDatabase(t.Context(), where())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			order(t, db, "a", 2)
			older, newer := writer{"g", 3, 1000, "m1"}, writer{"g", 3, 1001, "m2"}
			if n, err := db.write(t.Context(), "a", older); n != 2 || err != nil {
				t.Fatalf("%d invoices, %v", n, err)
			}
			// Nothing to write: the mark moves all the same.
			if n, err := db.write(t.Context(), "a", newer); n != 0 || err != nil {
				t.Fatalf("%d invoices, %v", n, err)
			}
			order(t, db, "a", 1)
			if n, err := db.write(t.Context(), "a", older); n != 0 || !errors.Is(err, fence.ErrStale) {
				t.Errorf("the former owner wrote %d invoices, %v", n, err)
			}
			order(t, db, "b", 1)
			if n, err := db.write(t.Context(), "b", writer{"g", 4, 1000, "m1"}); n != 1 || err != nil {
				t.Errorf("another tenant: %d invoices, %v", n, err)
			}
			order(t, db, "a", batch)
			for _, want := range []int64{batch, 1, 0} {
				if n, err := db.write(t.Context(), "a", newer); n != want || err != nil {
					t.Errorf("%d invoices, want %d, %v", n, want, err)
				}
			}
			r, err := verifyWithin(t.Context(), db, 0)
			if err != nil || r.verdict() != nil || r.invoices != batch+4 {
				t.Errorf("%+v, %v, %v", r, r.verdict(), err)
			}
		})
	}
}

func order(t *testing.T, db *database, tenant string, n int) {
	t.Helper()
	for range n {
		if err := db.sell(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
}
