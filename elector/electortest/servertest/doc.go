// Package servertest starts real servers for tests: one or several Redis, Redis with TLS,
// with Sentinel and as a Cluster, PostgreSQL, and MariaDB. Each server listens on a free
// port of the loopback interface, has its own directory, and ends with the test, however
// the test ends.
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
// selects another Redis. Unix only.
//
// # Why it is public
//
// The tests of this project use this package from the library, the command and the examples,
// which share only the top of the repository. An internal package that all three can import
// would have to be there; the command and the examples can't import one below elector/internal,
// and three copies would be a thousand lines each of ports, signals and clean-up that drift
// apart. Programs that embed an elector have the same need. So the exported names are as stable
// as those of electortest: within a major version names are added, never changed or removed. A
// test checks the list.
package servertest
