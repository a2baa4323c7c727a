package servertest

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// Redis starts a redis-server with further arguments, and returns its address.
func Redis(t testing.TB, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server", "MANDATE_TEST_REQUIRE_REDIS", "apt-get install redis-server")
	}
	port := strconv.Itoa(FreePort(t))
	launch(t, exec.Command(path, append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--daemonize", "no",
	}, args...)...), "Ready to accept connections", os.Interrupt)
	return "127.0.0.1:" + port
}
