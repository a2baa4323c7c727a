//go:build linux

package chaos

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// What make chaos sets for all tests of this tier, and what it is otherwise.

// chaosTime is how long faults are made: CHAOSTIME.
func chaosTime(t *testing.T) time.Duration {
	t.Helper()
	lasts, err := time.ParseDuration(or(os.Getenv("CHAOSTIME"), "20s"))
	if err != nil {
		t.Fatal(err)
	}
	return lasts
}

// chaosSeed is what a schedule is repeated by: CHAOSSEED.
func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(or(os.Getenv("CHAOSSEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
