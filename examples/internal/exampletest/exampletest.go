// Package exampletest has what the tests of the example programs share.
package exampletest

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// Main is TestMain of a program. In child processes the test binary stands in for the program.
func Main(m *testing.M, program func()) {
	const inside = "EXAMPLE_TEST_AS_PROGRAM"
	if os.Getenv(inside) == "1" {
		program()
		return
	}
	os.Setenv(inside, "1")
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// Program runs a program without its process, and returns what it prints.
func Program(t *testing.T, run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error, args ...string) (out string, err error) {
	t.Helper()
	var stdout, stderr strings.Builder
	err = run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return stdout.String() + stderr.String(), err
}
