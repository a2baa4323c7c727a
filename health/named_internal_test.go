package health

import (
	"errors"
	"strings"
	"testing"
)

// A probe that was forgotten is a failure with words, where nobody catches a panic, too.
func TestNamedNilProbe(t *testing.T) {
	if err := Named("db", nil).Check(t.Context()); !errors.Is(err, errNilProbe) || !strings.HasPrefix(err.Error(), "db: ") {
		t.Errorf("%v", err)
	}
}
