// Package sqltest holds the tests of fence's SQL marks on PostgreSQL, MariaDB and
// SQLite. It is a module of its own, so that anyone who imports mandate does not
// get three database drivers into their module graph.
package sqltest
