package fence_test

import (
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/fence"
)

func TestSQLBadSettings(t *testing.T) {
	for _, table := range []string{"a b", "a;b", "a.b.c", "1a", "a'", `"a"`, "a."} {
		if _, err := fence.NewSQL(fence.SQLite, table); err == nil {
			t.Errorf("table %q was accepted", table)
		}
	}
	if _, err := fence.NewSQL("oracle", ""); err == nil || !strings.Contains(err.Error(), "fence.PostgreSQL") {
		t.Errorf("dialect oracle: %v", err)
	}
	s, err := fence.NewSQL(fence.PostgreSQL, "app.marks")
	if err != nil || !strings.Contains(s.Schema(), "app.marks (") {
		t.Errorf("%v, %v", s, err)
	}
	// A server may have another engine as its default, without transactions.
	if s, err := fence.NewSQL(fence.MySQL, ""); err != nil || !strings.HasSuffix(s.Schema(), ") ENGINE=InnoDB") {
		t.Errorf("%v, %v", s, err)
	}
}
