package sqltest

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/fence"
)

func TestSQLErrorNamesWhatFailed(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	s, err := fence.NewSQL(fence.SQLite, "marks")
	if err != nil {
		t.Fatal(err)
	}
	guard := func(resource string) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		return s.Guard(t.Context(), tx, resource, 7)
	}
	if err := guard("orders"); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "raising the mark of orders in marks") {
		t.Errorf("without a table: %v", err)
	}
	if err := s.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := guard(strings.Repeat("x", 255)); err != nil {
		t.Errorf("a name of 255 bytes: %v", err)
	}
	if err := guard(strings.Repeat("x", 256)); err == nil || !strings.Contains(err.Error(), "1 to 255 bytes") {
		t.Errorf("a name of 256 bytes: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), db); err == nil || !strings.Contains(err.Error(), "creating the table marks") {
		t.Errorf("on a closed database: %v", err)
	}
}
