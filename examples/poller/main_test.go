package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// asPoller makes the test binary stand in for the program in child processes.
const asPoller = "POLLER_TEST_AS_POLLER"

func TestMain(m *testing.M) {
	if os.Getenv(asPoller) == "1" {
		main()
		return
	}
	os.Setenv(asPoller, "1")
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// run is the program without its process.
func run(t *testing.T, args ...string) (code int, out, logs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = execute(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// All of it in one go, with no server at all.
func TestDemo(t *testing.T) {
	code, out, logs := run(t)
	if code != 0 || !strings.Contains(out, "worker-1") || !strings.Contains(out, "queued twice") {
		t.Fatalf("exit code %d\n%s\n%s", code, out, logs)
	}
}

func TestBadFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"nonsense"}, {"work", "--batch", "0"}, {"work", "--stall-after", "-1s"}, {"produce", "--rate", "0"}, {"produce", "--late", "2"},
		{"verify", "--log-level", "loud"}, {"verify", "--queue", "http://user:secret@host"}, {"verify", "--redis", "redis://u:secret@127.0.0.1:1/x"},
		{"work", "--redis", "redis://a:secret@127.0.0.1:1", "--redis", "redis://b:secret@127.0.0.1:2"},
	} {
		if code, out, logs := run(t, args...); code == 0 || !strings.Contains(logs, "poller: ") || strings.Contains(out+logs, "secret") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, logs)
		}
	}
}
