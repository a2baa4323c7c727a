// Package servertest starts real servers for tests: Redis alone, in numbers, under
// sentinels and as a cluster, PostgreSQL, MariaDB. Each is on a free port of the
// loopback interface, in a directory of its own, and ends with the test. A missing
// server is a loud skip, and a failure where it is required (as in CI).
//
// It serves the tests of this module: its names may change without notice.
package servertest
