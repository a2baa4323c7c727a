package elector_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child() // a process of its own, for tests of what ends one
		return
	}
	goleak.VerifyTestMain(m)
}
