package sqltest

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

func TestMain(m *testing.M) { testleak.VerifyTestMain(m) }
