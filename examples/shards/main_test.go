package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// asShards makes the test binary stand in for the program in child processes.
const asShards = "SHARDS_TEST_AS_SHARDS"

func TestMain(m *testing.M) {
	if os.Getenv(asShards) == "1" {
		main()
		return
	}
	os.Setenv(asShards, "1")
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
	if code != 0 || !strings.Contains(out, "(unhealthy)") || !strings.Contains(out, "(handover)") || !strings.Contains(out, "tokens crossed  0") {
		t.Fatalf("exit code %d\n%s\n%s", code, out, logs)
	}
}

func TestBadFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"nonsense"}, {"work", "--stall", "0s"}, {"work", "--hang-after", "-1s"}, {"work", "--shards", "0"}, {"work", "--shards", "-1"},
		{"work", "--lease", "1ms"}, {"sell", "--rate", "0"}, {"sell", "--rate", "1e10"}, {"sell", "--tenants", "0"}, {"verify", "--log-level", "loud"},
		{"verify", "--db", "postgres://user:secret@host:port/x"}, {"work", "--redis", "http://user:secret@host"},
		{"work", "--redis", "redis://a:secret@127.0.0.1:1", "--redis", "redis://b:secret@127.0.0.1:2"},
	} {
		if code, out, logs := run(t, args...); code == 0 || !strings.Contains(logs, "shards: ") || strings.Contains(out+logs, "secret") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, logs)
		}
	}
}
