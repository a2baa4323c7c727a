// Package sqltest contains the tests of fence's SQL marks on PostgreSQL, MariaDB and
// SQLite. It is a module of its own, so that importing mandate does not add three
// database drivers to a program's module graph.
package sqltest

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

func TestMain(m *testing.M) { testleak.VerifyTestMain(m) }
