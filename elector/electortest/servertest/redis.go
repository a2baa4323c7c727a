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
	addr, _ := RestartableRedis(t, args...)
	return addr
}

// RestartableRedis is Redis, with a function that kills the server without a word and
// starts it again on what it left on disk.
func RestartableRedis(t testing.TB, args ...string) (addr string, restart func()) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server", "MANDATE_TEST_REQUIRE_REDIS", "apt-get install redis-server")
	}
	port := strconv.Itoa(FreePort(t))
	args = append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--daemonize", "no"}, args...)
	start := func() func() {
		return launch(t, exec.Command(path, args...), "Ready to accept connections", os.Interrupt)
	}
	kill := start()
	return "127.0.0.1:" + port, func() {
		kill()
		kill = start()
	}
}
