// Package servertest starts real servers for tests: Redis alone, in numbers, with TLS,
// under sentinels and as a cluster, PostgreSQL, MariaDB. Each is on a free port of the
// loopback interface, in its own directory, and ends with the test, whatever
// becomes of it.
//
//	func TestWorkerOutlivesRedis(t *testing.T) {
//		s := servertest.Redis(t, servertest.AOF...)
//		q, err := elector.Open(s.URL())
//		...
//		s.Kill()
//		s.Restart(t)
//		// now: does the worker lead again?
//	}
//
// Start with electortest: its embedded Redis needs no server and runs on virtual time.
// This package is for what only a real one does: to hang, to lose its data, to fail over,
// to refuse a right. The programs must be installed. A missing one skips the test, and
// logs that; MANDATE_TEST_REQUIRE_REDIS=1 (_POSTGRES, _MARIADB) makes that a failure, as CI
// should. MANDATE_TEST_REDIS_SERVER=/path/to/valkey-server selects another Redis. Unix only.
//
// # Why it is public
//
// The tests of this project use it from the library, the command and the examples, which
// share only the top of the repository. An internal package that all three can import
// would have to lie there; below elector/internal the command and the examples could not
// see it, and a copy for each would be a thousand lines of ports, signals and clean-up
// that drift apart. Those who embed an elector have the same need, so what is exported
// is a promise as that of electortest is: names are added, never changed or removed,
// within a major version. A test holds the list.
package servertest
