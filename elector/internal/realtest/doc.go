// Package realtest runs redis-server processes for tests: alone, in numbers,
// under sentinels, as a cluster. Its own tests are the integration tier: the
// public package elector on real servers that hang, die, forget, refuse and
// fail over (see CONTRIBUTING.md). Nothing outside of tests imports it.
package realtest
