// Package browsertest tests the console in a real browser. It is a module of its own, so that
// programs that import mandate do not get a browser driver into their module graph.
package browsertest
