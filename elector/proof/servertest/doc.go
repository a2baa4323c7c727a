// Package servertest starts real servers for tests: one or several Redis, PostgreSQL, and MariaDB.
// Each server listens on a free port of the loopback interface, has its own directory, and ends
// with the test, however the test ends.
//
//	func TestWorkerOutlivesRedis(t *testing.T) {
//		s := servertest.Redis(t, servertest.AOF...)
//		q, err := elector.Open(s.URL())
//		...
//		s.Kill()
//		s.Restart(t)
//		// now check that the worker leads again
//	}
//
// Start with electortest: its embedded Redis needs no server and runs on virtual time.
// Use this package for what only a real server does: it hangs, loses its data, fails over, or
// refuses a command for a missing right. The server programs must be installed. If one is
// missing, the test is skipped, which is logged; with MANDATE_TEST_REQUIRE_REDIS=1 (_POSTGRES,
// _MARIADB) it fails instead, as it should in CI. MANDATE_TEST_REDIS_SERVER=/path/to/valkey-server
// selects another Redis. On Windows all is skipped, for want of servers.
package servertest
